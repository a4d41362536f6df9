#include "ops/tiled/tiled_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "core/bytes.h"
#include "device/factored_kernel.h"
#include "ops/tiled/step_kernel.h"
#include "ops/tiled/tiled.h"

namespace neap::ops {
namespace {

Shape with_rows(const Shape& shape, int axes, std::int64_t rows) {
  Shape out{rows};
  for (int i = axes; i < shape.rank(); ++i) out.push_back(shape[i]);
  return out;
}

// Axes in front of the rows' own are 1 or missing.
Shape without_rows(const Shape& shape, const Shape& result, int axes) {
  Shape out;
  for (int i = std::max(0, axes + shape.rank() - result.rank()); i < shape.rank(); ++i) out.push_back(shape[i]);
  return out;
}

// The program prepared for one number of rows.
struct ChunkKernels {
  std::vector<std::unique_ptr<Kernel>> kernels;
  std::int64_t scratch = 0;
};

class TiledKernel final : public FactoredKernel {
 public:
  static Prepared make(const OpCall& call, Which which) {
    auto out = std::make_unique<TiledKernel>();
    if (const char* why = out->prepare(call, which)) return Declined{why};
    return Prepared(std::move(out));
  }

  std::int64_t workspace_bytes() const override { return bytes_; }
  std::string numerics() const override { return cuts_[0].numerics; }

  std::vector<std::string> factor_names() const override {
    std::vector<std::string> out;
    for (const Cut& cut : cuts_) out.push_back(fmt::format("{} rows", cut.rows));
    return out;
  }

  void launch_with(std::size_t factor, const Buffers& b, Stream& stream) override {
    Cut& cut = cuts_[factor];
    for (std::int64_t first = 0; first < rows_; first += cut.rows) {
      run(b, first, rows_ - first < cut.rows ? cut.last : cut.whole, stream);
    }
  }

 private:
  struct Cut {
    std::int64_t rows = 0;  // that go through all steps at one time
    ChunkKernels whole, last;
    std::string numerics;
  };
  static constexpr std::size_t kMostInputs = 8;

  struct Part {
    RowKind kind = RowKind::kWhole;
    std::int64_t row_bytes = 0;
    std::int64_t row_elements = 0;
    std::int64_t at = 0;  // in the workspace, of a step's result
  };

  const char* prepare(const OpCall& call, Which which) {
    program_ = program_of(call.attrs);
    inputs_ = call.inputs.size();
    types_ = types_of(program_, call.inputs);
    const Shape& result = types_.back()->shape;
    rows_ = 1;
    for (int i = 0; i < program_.axes; ++i) rows_ *= result.size(i);
    if (rows_ == 0) return "there is nothing to compute";
    for (const TiledStep& step : program_.steps) {
      if (step.inputs.size() > kMostInputs) return "a step has too many inputs";
    }
    std::int64_t widest = 1;
    for (const auto& type : types_) {
      Part part;
      if (type) {
        part.kind = row_kind(type->shape, result, program_.axes);
        if (part.kind == RowKind::kNeither && type->dtype != DType::kU64) part.kind = RowKind::kWhole;
        if (part.kind == RowKind::kRows) {
          part.row_elements = type->elements() / rows_;
          part.row_bytes = type->bytes() / rows_;
          widest = std::max(widest, part.row_bytes);
        }
      }
      parts_.push_back(part);
    }
    const std::int64_t most = which == Which::kRef ? rows_ : std::clamp<std::int64_t>(kChunkBytes / widest, 1, rows_);
    const char* why = nullptr;
    for (std::int64_t rows = most; why == nullptr && rows >= 1 && rows > most / kSmallest; rows /= 2) {
      why = add_cut(rows, which);
      if (which == Which::kRef) break;
    }
    if (why == nullptr) lay_out();
    set_factors(cuts_.size());
    return why;
  }

  // One whose steps would be computed in another way is none.
  const char* add_cut(std::int64_t rows, Which which) {
    Cut cut{.rows = rows};
    const char* why = prepare_chunk(rows, which, cut.whole, cut.numerics);
    if (why == nullptr) why = prepare_chunk(rows_ % rows == 0 ? rows : rows_ % rows, which, cut.last, cut.numerics);
    if (why != nullptr) return why;
    if (cuts_.empty() || cut.numerics == cuts_[0].numerics) cuts_.push_back(std::move(cut));
    return nullptr;
  }

  std::optional<TensorType> chunk_type(std::size_t value, std::int64_t rows) const {
    if (!types_[value]) return std::nullopt;
    const TensorType& type = *types_[value];
    const Shape& result = types_.back()->shape;
    if (type.dtype == DType::kU64) return type;  // a random key
    return TensorType{type.dtype, parts_[value].kind == RowKind::kRows
                                      ? with_rows(type.shape, program_.axes, rows)
                                      : without_rows(type.shape, result, program_.axes)};
  }

  const char* prepare_chunk(std::int64_t rows, Which which, ChunkKernels& out, std::string& numerics) {
    for (std::size_t s = 0; s < program_.steps.size(); ++s) {
      OpCall call{.op = program_.steps[s].op, .attrs = program_.steps[s].attrs};
      for (const int i : program_.steps[s].inputs) {
        call.inputs.push_back(i < 0 ? std::nullopt : chunk_type(static_cast<std::size_t>(i), rows));
      }
      call.outputs = call.op->infer(call);
      if (!(call.outputs[0] == *chunk_type(inputs_ + s, rows))) return "a step does not go by rows";
      out.kernels.push_back(step_kernel(call, which));
      if (!out.kernels.back()) return "a step has no such kernel";
      outputs_ = std::max(outputs_, call.outputs.size());
      out.scratch = std::max(out.scratch, out.kernels.back()->workspace_bytes());
      numerics += out.kernels.back()->numerics();
    }
    return nullptr;
  }

  // A result lives from its step to its last reader; the first place that is free and large enough is taken.
  void lay_out() {
    std::vector<std::size_t> last(types_.size());
    for (std::size_t s = 0; s < program_.steps.size(); ++s) {
      for (const int i : program_.steps[s].inputs) {
        if (i >= 0) last[static_cast<std::size_t>(i)] = s;
      }
    }
    struct Place {
      std::int64_t at, bytes;
      std::size_t busy_until;
    };
    std::vector<Place> places;
    std::int64_t scratch = 0;
    for (const Cut& cut : cuts_) scratch = std::max({scratch, cut.whole.scratch, cut.last.scratch});
    bytes_ = align_up(scratch);
    for (std::size_t s = 0; s + 1 < program_.steps.size(); ++s) {
      Part& part = parts_[inputs_ + s];
      const std::int64_t bytes = align_up(part.row_bytes * cuts_[0].rows);
      auto free = std::find_if(places.begin(), places.end(),
                               [&](const Place& p) { return p.busy_until < s && p.bytes >= bytes; });
      if (free == places.end()) {
        places.push_back({bytes_, bytes, 0});
        bytes_ += bytes;
        free = places.end() - 1;
      }
      free->busy_until = last[inputs_ + s];
      part.at = free->at;
    }
  }

  void run(const Buffers& b, std::int64_t first, ChunkKernels& chunk, Stream& stream) {
    for (std::size_t s = 0; s < program_.steps.size(); ++s) {
      const TiledStep& step = program_.steps[s];
      std::array<const std::byte*, kMostInputs> in{};
      std::array<std::uint64_t, 3> key{};
      for (std::size_t i = 0; i < step.inputs.size(); ++i) {
        if (step.inputs[i] >= 0) in[i] = value(b, static_cast<std::size_t>(step.inputs[i]), first);
        if (step.op->random && step.inputs[i] >= 0 && is_key(step.inputs[i])) {
          std::memcpy(key.data(), in[i], sizeof key);
          key[2] += static_cast<std::uint64_t>(first * parts_[inputs_ + s].row_elements);
          in[i] = reinterpret_cast<const std::byte*>(key.data());
        }
      }
      const bool is_last = s + 1 == program_.steps.size();
      const Part& part = parts_[inputs_ + s];
      std::array<std::byte*, 4> out = {is_last ? b.out<std::byte>(0) + first * part.row_bytes : b.workspace + part.at};
      chunk.kernels[s]->launch({.inputs = std::span(in).first(step.inputs.size()),
                                .outputs = std::span<std::byte* const>(out).first(outputs_),
                                .workspace = b.workspace},
                               stream);
    }
  }

  bool is_key(int value) const { return types_[static_cast<std::size_t>(value)]->dtype == DType::kU64; }

  const std::byte* value(const Buffers& b, std::size_t i, std::int64_t first) const {
    if (i >= inputs_) return b.workspace + parts_[i].at;
    return b.in<std::byte>(i) + (parts_[i].kind == RowKind::kRows ? first * parts_[i].row_bytes : 0);
  }

  // Of the widest value: two or three of them lie in the second-level caches of a few cores.
  static constexpr std::int64_t kChunkBytes = 512 * kKiB;
  static constexpr std::int64_t kSmallest = 16;  // of the chunk: halves down to an eighth are tried

  TiledProgram program_;
  std::size_t inputs_ = 0;
  std::size_t outputs_ = 1;
  std::vector<std::optional<TensorType>> types_;
  std::vector<Part> parts_;
  std::int64_t rows_ = 0, bytes_ = 0;
  std::vector<Cut> cuts_;  // the largest first
};

}  // namespace

Prepared tiled_with_libraries(const OpCall& call) { return TiledKernel::make(call, Which::kAny); }
Prepared tiled_own(const OpCall& call) { return TiledKernel::make(call, Which::kOwn); }
Prepared tiled_ref(const OpCall& call) { return TiledKernel::make(call, Which::kRef); }

}  // namespace neap::ops
