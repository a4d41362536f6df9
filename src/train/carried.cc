#include "train/carried.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "core/random.h"
#include "graph/op.h"
#include "neap/error.h"
#include "train/levels.h"
#include "train/variants.h"

namespace neap {
namespace {

constexpr std::string_view kIn = "step.carried.";
constexpr std::string_view kOut = "carried.";

// Of the chunk ops: where states come in and go out.
constexpr std::size_t kWeights = 2;
struct Place {
  std::size_t input;
  std::size_t output;
  char letter;
};
constexpr Place kPlaces[] = {{6, 1, 'h'}, {7, 4, 'c'}};

bool is_given(const Node& node, std::size_t input) { return input < node.inputs.size() && node.inputs[input]; }

void carry(Graph& graph, Node& first, const Node& last, std::size_t number) {
  const bool has_cell = first.op->name == "lstm_chunk";
  for (const Place& place : std::span(kPlaces).first(has_cell ? 2 : 1)) {
    const TensorId out = last.outputs[place.output];
    const std::string name = fmt::format("{}{}", place.letter, number);
    if (first.inputs.size() <= place.input) first.inputs.resize(place.input + 1);
    first.inputs[place.input] =
        graph.add({.name = std::string(kIn) + name, .type = graph.at(out).type, .role = Role::kInput});
    graph.outputs.emplace_back(std::string(kOut) + name, out);
  }
}

std::int64_t fp32_bytes(std::int64_t elements) { return precision::encoded_bytes(precision::Level::kFp32, elements); }

// The mean square of what rounding did, over that of the values.
double rounding_error(std::span<const float> values, std::span<const float> again) {
  double square = 0;
  double off = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double d = static_cast<double>(again[i]) - static_cast<double>(values[i]);
    square += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    off += d * d;
  }
  return square > 0 ? off / square : 0;
}

precision::Level level_of(const TrainOptions& options) {
  const std::string& text = options.precision.carried;
  const bool is_exact = !parse_tolerance(options.precision.tolerance);
  if (text.empty()) return is_exact ? precision::Level::kFp32 : precision::Level::kBf16;
  const auto level = precision::parse_level(text);
  if (!level || *level == precision::Level::kBit)
    throw UserError(fmt::format("--carried-precision '{}': take fp32, fp16, bf16, int8 or int4", text));
  if (is_exact && *level != precision::Level::kFp32) {
    throw UserError(fmt::format("--carried-precision {} is not exact; give a --tolerance, too", text));
  }
  return *level;
}

}  // namespace

void carry_states(Graph& forward) {
  struct Ends {
    std::size_t first;
    std::size_t last;
  };
  std::map<TensorId, Ends> layers;  // by their recurrent weights
  for (std::size_t i = 0; i < forward.nodes.size(); ++i) {
    const Node& node = forward.nodes[i];
    if (!is_chunk(node)) continue;
    if (node.attrs.integer("reverse", 0) != 0) {
      throw UserError(fmt::format("--carry-state: '{}' also runs backwards in time, from states to come", node.layer));
    }
    if (const auto at = layers.find(node.inputs[kWeights]); at != layers.end()) {
      at->second.last = i;
    } else if (!is_given(node, kPlaces[0].input) && !is_given(node, kPlaces[1].input)) {
      layers.emplace(node.inputs[kWeights], Ends{i, i});
    }
  }
  if (layers.empty()) throw UserError("--carry-state: the model has no recurrent layer that begins with zeros");
  std::size_t number = 0;
  for (const auto& [weights, ends] : layers) {
    carry(forward, forward.nodes[ends.first], forward.nodes[ends.last], number++);
  }
}

std::vector<CarriedTensors> carried_tensors(const Graph& graph) {
  std::vector<CarriedTensors> out;
  for (const auto& [name, id] : graph.outputs) {
    if (!name.starts_with(kOut)) continue;
    const auto in = graph.find(std::string(kIn) + name.substr(kOut.size()));
    require(in.has_value(), "what is carried comes in again");
    out.push_back({*in, id, graph.at(id).type.elements()});
  }
  return out;
}

Carried::Carried(const TrainOptions& options)
    : level_(level_of(options)), seed_(options.seed), parts_(static_cast<std::size_t>(options.accumulate)) {
  if (options.carry_state && options.lengths != "fixed") {
    throw UserError("--carry-state: sequences of varying lengths are apart from each other; leave --lengths fixed");
  }
  if (!options.carry_state && !options.precision.carried.empty()) {
    throw UserError("--carried-precision is for runs with --carry-state");
  }
}

Carried::State& Carried::state(const Stepper& stepper, std::int64_t part, std::size_t index) {
  std::vector<State>& states = parts_.at(static_cast<std::size_t>(part));
  while (states.size() < stepper.carried().size()) {
    const CarriedTensors& t = stepper.carried()[states.size()];
    State made{.name = fmt::format("{}{}.part{}", kOut, stepper.graph().at(t.in).name.substr(kIn.size()), part),
               .elements = t.elements};
    made.bytes.resize(
        static_cast<std::size_t>(std::max(precision::encoded_bytes(level_, t.elements), fp32_bytes(t.elements))));
    if (values_.size() < static_cast<std::size_t>(t.elements)) {
      values_.resize(static_cast<std::size_t>(t.elements));
      again_.resize(values_.size());
    }
    states.push_back(std::move(made));
  }
  require(states[index].elements == stepper.carried()[index].elements, "a state keeps its size");
  return states[index];
}

void Carried::store(State& s, std::uint64_t run, std::string& trouble) {
  const auto count = static_cast<std::size_t>(s.elements);
  s.level = level_;
  const precision::CodecKey key{.seed = seed_, .step = run, .tensor = hash_text(s.name)};
  const unsigned flags = precision::encode(level_, values_.data(), s.elements, key, s.bytes.data());
  if (level_ != precision::Level::kFp32 && precision::must_stay_exact(flags)) {
    s.level = precision::Level::kFp32;
    trouble = fmt::format("'{}' has values that {} cannot hold; it is kept exactly", s.name, precision::name(level_));
  }
  if (s.level == precision::Level::kFp32) {
    std::memcpy(s.bytes.data(), values_.data(), count * sizeof(float));
    s.error = 0;
    return;
  }
  precision::decode(s.level, s.bytes.data(), s.elements, again_.data());
  s.error = rounding_error(std::span(values_).first(count), std::span(again_).first(count));
}

void Carried::write(Stepper& stepper, std::int64_t part, bool begins) {
  for (std::size_t i = 0; i < stepper.carried().size(); ++i) {
    State& s = state(stepper, part, i);
    if (begins) {
      s.level = precision::Level::kFp32;
      std::fill(s.bytes.begin(), s.bytes.end(), std::byte{});
    }
    precision::decode(s.level, s.bytes.data(), s.elements, values_.data());
    stepper.executor().write(stepper.carried()[i].in, values_.data());
  }
}

std::string Carried::take(const Stepper& stepper, std::int64_t part, std::uint64_t run) {
  std::string trouble;
  for (std::size_t i = 0; i < stepper.carried().size(); ++i) {
    State& s = state(stepper, part, i);
    stepper.executor().read(stepper.carried()[i].out, values_.data());
    store(s, run, trouble);
  }
  return trouble;
}

std::vector<StoredTensorReport> Carried::rows() const {
  std::vector<StoredTensorReport> out;
  for (const auto& states : parts_) {
    for (const State& s : states) {
      if (level_ == precision::Level::kFp32) continue;
      out.push_back(
          {.name = s.name, .layer = "carried state", .level = std::string(precision::name(s.level)), .error = s.error});
    }
  }
  return out;
}

Carried::Saved Carried::saved() const {
  Saved out;
  std::size_t count = 0;
  for (const auto& states : parts_) count += states.size();
  out.values.reserve(count);  // the tensors point into it
  for (const auto& states : parts_) {
    for (const State& s : states) {
      std::vector<float>& v = out.values.emplace_back(static_cast<std::size_t>(s.elements));
      precision::decode(s.level, s.bytes.data(), s.elements, v.data());
      out.tensors.push_back(
          {.name = s.name, .dtype = DType::kF32, .shape = Shape{s.elements}, .data = std::as_bytes(std::span(v))});
    }
  }
  return out;
}

void Carried::restore(const SafeTensorsFile& file, const std::string& path, const Stepper& stepper) {
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    for (std::size_t i = 0; i < stepper.carried().size(); ++i) {
      State& s = state(stepper, static_cast<std::int64_t>(part), i);
      const SafeTensor* from = file.find(s.name);
      if (from == nullptr) throw UserError(fmt::format("'{}' has no tensor '{}'", path, s.name));
      if (from->dtype != DType::kF32 || from->data.size() != static_cast<std::size_t>(fp32_bytes(s.elements))) {
        throw UserError(fmt::format("'{}': tensor '{}' is not f32[{}]", path, s.name, s.elements));
      }
      s.level = precision::Level::kFp32;
      std::memcpy(s.bytes.data(), from->data.data(), from->data.size());
    }
  }
}

}  // namespace neap
