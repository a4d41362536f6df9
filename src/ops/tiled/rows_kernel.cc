#include "ops/tiled/rows_kernel.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/bytes.h"
#include "ops/tiled/rows.h"
#include "ops/tiled/step_kernel.h"

namespace neap::ops {
namespace {

constexpr std::size_t kMostInputs = 8;   // of a step
constexpr std::size_t kMostOutputs = 4;  // of a step

// Where values of one chunk lie in the workspace. A value lives from its step to its last reader; a step writes over
// a value that dies there where its op may, else into the first free place that is large enough.
class Places {
 public:
  Places(const RowProgram& program, std::size_t values) : program_(program), last_(values) {
    for (std::size_t s = 0; s < program.steps.size(); ++s) {
      for (const int i : program.steps[s].inputs) {
        if (i >= 0) last_[static_cast<std::size_t>(i)] = s;
      }
    }
  }

  // For value `value`, output `output` of step `step`; `places` has what earlier ones got, -1 where none.
  std::int64_t put(std::size_t value, std::size_t step, int output, std::int64_t bytes,
                   const std::vector<std::int64_t>& places) {
    const std::size_t until = std::max(last_[value], step);
    if (Place* over = dying_operand(step, output, bytes, places)) {
      over->busy_until = until;
      return over->at;
    }
    const auto free =
        std::find_if(all_.begin(), all_.end(), [&](const Place& p) { return p.busy_until < step && p.bytes >= bytes; });
    if (free != all_.end()) {
      free->busy_until = until;
      return free->at;
    }
    all_.push_back({end_, bytes, until});
    end_ += align_up(bytes);
    return all_.back().at;
  }

  std::size_t last_reader(std::size_t value) const { return last_[value]; }
  std::int64_t end() const { return end_; }
  void reserve(std::int64_t bytes) { end_ += align_up(bytes); }

 private:
  struct Place {
    std::int64_t at, bytes;
    std::size_t busy_until;
  };

  Place* dying_operand(std::size_t step, int output, std::int64_t bytes, const std::vector<std::int64_t>& places) {
    for (const InOut& pair : program_.steps[step].op->in_place) {
      const auto& inputs = program_.steps[step].inputs;
      if (pair.output != output || pair.input >= inputs.size() || inputs[pair.input] < 0) continue;
      const auto value = static_cast<std::size_t>(inputs[pair.input]);
      if (last_[value] != step || places[value] < 0) continue;
      for (Place& place : all_) {
        if (place.at == places[value] && place.bytes == bytes && place.busy_until == step) return &place;
      }
    }
    return nullptr;
  }

  const RowProgram& program_;
  std::vector<std::size_t> last_;
  std::vector<Place> all_;
  std::int64_t end_ = 0;
};

class RowsKernel final : public Kernel {
 public:
  static Prepared make(const OpCall& call, Which which) {
    auto out = std::make_unique<RowsKernel>();
    if (const char* why = out->prepare(call, which)) return Declined{why};
    return Prepared(std::move(out));
  }

  std::int64_t workspace_bytes() const override { return bytes_; }
  std::string numerics() const override { return numerics_; }

  void launch(const Buffers& b, Stream& stream) override {
    for (std::int64_t first = 0; first < rows_; first += chunk_) {
      auto& kernels = rows_ - first < chunk_ ? last_ : whole_;
      for (std::size_t s = 0; s < program_.steps.size(); ++s) run(b, first, s, *kernels[s], stream);
    }
  }

 private:
  struct Part {
    bool by_rows = false;
    std::int64_t row_bytes = 0;
    std::int64_t row_elements = 0;
    int result = -1;       // it is this output of the node
    std::int64_t at = -1;  // else here in the workspace
    bool is_result() const { return result >= 0; }
  };
  using Kernels = std::vector<std::unique_ptr<Kernel>>;

  const char* prepare(const OpCall& call, Which which) {
    program_ = row_program_of(call.attrs);
    types_ = value_types(program_, call.inputs);
    rows_ = rows_of(program_, types_);
    if (rows_ == 0) return "there is nothing to compute";
    if (const char* why = note_parts()) return why;
    chunk_ = which == Which::kRef ? rows_ : std::min(program_.chunk, rows_);
    const std::int64_t rest = rows_ % chunk_;
    const char* why = prepare_chunk(chunk_, which, whole_);
    if (why == nullptr && rest != 0) why = prepare_chunk(rest, which, last_);
    if (why == nullptr) lay_out();
    return why;
  }

  const char* note_parts() {
    const std::size_t inputs = program_.inputs.size();
    parts_.resize(types_.size());
    for (std::size_t i = 0; i < types_.size(); ++i) {
      Part& part = parts_[i];
      part.by_rows = types_[i] && (i >= inputs || program_.inputs[i] == RowInput::kRows);
      if (!part.by_rows) continue;
      const std::int64_t elements = types_[i]->elements();
      if (elements % rows_ != 0) return "a value does not go by rows";
      part.row_elements = elements / rows_;
      if (types_[i]->dtype == DType::kBits && part.row_elements % 8 != 0) return "a row of bits ends within a byte";
      part.row_bytes = types_[i]->bytes() / rows_;
    }
    for (std::size_t r = 0; r < program_.results.size(); ++r) {
      parts_[static_cast<std::size_t>(program_.results[r])].result = static_cast<int>(r);
    }
    return nullptr;
  }

  const char* prepare_chunk(std::int64_t rows, Which which, Kernels& out) {
    std::size_t value = program_.inputs.size();
    for (std::size_t s = 0; s < program_.steps.size(); ++s) {
      const OpCall call = chunk_call(program_, types_, s, rows);
      if (call.inputs.size() > kMostInputs || call.outputs.size() > kMostOutputs) return "a step has too many operands";
      for (int o = 0; o < program_.steps[s].outputs; ++o, ++value) {
        if (call.outputs[static_cast<std::size_t>(o)].elements() != parts_[value].row_elements * rows) {
          return "a step does not go by rows";
        }
      }
      out.push_back(step_kernel(call, which));
      if (!out.back()) return "a step has no such kernel";
      outputs_.resize(program_.steps.size());
      outputs_[s] = call.outputs.size();
      scratch_ = std::max(scratch_, out.back()->workspace_bytes());
      numerics_ += out.back()->numerics();
    }
    return nullptr;
  }

  void lay_out() {
    std::size_t next = program_.inputs.size();
    for (const RowStep& step : program_.steps) {
      first_.push_back(next);
      next += static_cast<std::size_t>(step.outputs);
    }
    Places places(program_, types_.size());
    for (std::size_t s = program_.steps.size(); s-- > 0;) take_home(s, places);
    places.reserve(scratch_);
    std::vector<std::int64_t> at(types_.size(), -1);
    for (std::size_t s = 0; s < program_.steps.size(); ++s) {
      for (int o = 0; o < program_.steps[s].outputs; ++o) {
        const std::size_t value = first_[s] + static_cast<std::size_t>(o);
        if (parts_[value].is_result()) continue;
        at[value] = parts_[value].at = places.put(value, s, o, parts_[value].row_bytes * chunk_, at);
      }
    }
    bytes_ = places.end();
  }

  // What a step reads last and may write over is made where the step's result will be, if that is an output: then
  // it takes no place of its own. Not where an input may lie, which is still needed.
  void take_home(std::size_t s, const Places& places) {
    const bool is_over_input = types_[0].has_value();
    for (const InOut& pair : program_.steps[s].op->in_place) {
      const auto& inputs = program_.steps[s].inputs;
      if (pair.output >= program_.steps[s].outputs || pair.input >= inputs.size()) continue;
      if (inputs[pair.input] < static_cast<int>(program_.inputs.size())) continue;
      const auto value = static_cast<std::size_t>(inputs[pair.input]);
      const Part& result = parts_[first_[s] + pair.output];
      const bool is_free = result.is_result() && !(result.result == 0 && is_over_input);
      const bool is_once = std::count(inputs.begin(), inputs.end(), inputs[pair.input]) == 1;
      if (!is_free || !is_once || parts_[value].is_result() || places.last_reader(value) != s) continue;
      if (parts_[value].row_bytes != result.row_bytes) continue;
      parts_[value].result = result.result;
      return;
    }
  }

  std::byte* made(const Buffers& b, std::size_t value, std::int64_t first) const {
    const Part& part = parts_[value];
    return part.is_result() ? b.out<std::byte>(static_cast<std::size_t>(part.result)) + first * part.row_bytes
                            : b.workspace + part.at;
  }

  const std::byte* operand(const Buffers& b, std::size_t value, std::int64_t first) const {
    if (value >= program_.inputs.size()) return made(b, value, first);
    const auto* in = b.in<std::byte>(value);
    return in != nullptr && parts_[value].by_rows ? in + first * parts_[value].row_bytes : in;
  }

  void run(const Buffers& b, std::int64_t first, std::size_t s, Kernel& kernel, Stream& stream) {
    const RowStep& step = program_.steps[s];
    std::array<const std::byte*, kMostInputs> in{};
    std::array<std::uint64_t, 3> key{};
    for (std::size_t i = 0; i < step.inputs.size(); ++i) {
      if (step.inputs[i] < 0) continue;
      const auto value = static_cast<std::size_t>(step.inputs[i]);
      in[i] = operand(b, value, first);
      if (value < program_.inputs.size() && program_.inputs[value] == RowInput::kKey) {
        std::memcpy(key.data(), in[i], sizeof key);
        key[2] += static_cast<std::uint64_t>(first * parts_[first_[s]].row_elements);
        in[i] = reinterpret_cast<const std::byte*>(key.data());
      }
    }
    std::array<std::byte*, kMostOutputs> out{};
    for (std::size_t o = 0; o < static_cast<std::size_t>(step.outputs); ++o) out[o] = made(b, first_[s] + o, first);
    kernel.launch({.inputs = std::span(in).first(step.inputs.size()),
                   .outputs = std::span<std::byte* const>(out).first(outputs_[s]),
                   .workspace = b.workspace},
                  stream);
  }

  RowProgram program_;
  ValueTypes types_;
  std::vector<Part> parts_;
  std::vector<std::size_t> first_;    // value of each step
  std::vector<std::size_t> outputs_;  // of each step's op
  std::int64_t rows_ = 0, chunk_ = 0, bytes_ = 0, scratch_ = 0;
  Kernels whole_, last_;
  std::string numerics_;
};

}  // namespace

Prepared rows_with_libraries(const OpCall& call) { return RowsKernel::make(call, Which::kAny); }
Prepared rows_own(const OpCall& call) { return RowsKernel::make(call, Which::kOwn); }
Prepared rows_ref(const OpCall& call) { return RowsKernel::make(call, Which::kRef); }

}  // namespace neap::ops
