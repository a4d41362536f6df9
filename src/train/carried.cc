#include "train/carried.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

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

std::string room_name(std::string_view letter_and_number, std::int64_t part) {
  return fmt::format("{}{}.part{}", kOut, letter_and_number, part);
}

// Below fp32 a room ends with a byte: 0 while nothing is in it, else the level of what is, plus one. It is large enough
// for bf16, which holds what no other level does.
TensorType room_type(precision::Level level, const TensorType& type) {
  if (level == precision::Level::kFp32) return type;
  const std::int64_t elements = type.elements();
  return {DType::kU8,
          {1 + std::max(precision::encoded_bytes(level, elements),
                        precision::encoded_bytes(precision::Level::kBf16, elements))}};
}

// None: nothing is in the room. A file may have filled it.
std::optional<precision::Level> level_in(std::span<const std::byte> room, std::int64_t elements,
                                         const std::string& name) {
  const auto tag = std::to_integer<std::size_t>(room.back());
  if (tag == 0) return std::nullopt;
  const bool is_known = tag <= precision::kAllLevels.size();
  const auto level = is_known ? precision::kAllLevels[tag - 1] : precision::Level::kFp32;
  if (!is_known || precision::encoded_bytes(level, elements) >= static_cast<std::int64_t>(room.size())) {
    throw UserError(fmt::format("'{}' is not what a recurrent layer left behind; the checkpoint is damaged", name));
  }
  return level;
}

// Where the host reads or writes a tensor: in place, or in a copy.
std::span<std::byte> host_bytes(const Stepper& stepper, TensorId id, std::vector<std::byte>& copy) {
  const auto bytes = static_cast<std::size_t>(stepper.graph().at(id).type.bytes());
  if (stepper.executor().is_host_memory()) return {stepper.executor().at(id), bytes};
  copy.resize(bytes);
  return copy;
}

std::span<std::byte> fetched(const Stepper& stepper, TensorId id, std::vector<std::byte>& copy) {
  const std::span<std::byte> out = host_bytes(stepper, id, copy);
  if (!stepper.executor().is_host_memory()) stepper.executor().read(id, out.data());
  return out;
}

void send(Stepper& stepper, TensorId id, std::span<const std::byte> bytes) {
  if (!stepper.executor().is_host_memory()) stepper.executor().write(id, bytes.data());
}

// The mean square of what rounding did, over that of the values. A few groups at a time: it has no memory of its own.
double rounding_error(precision::Level level, const std::byte* stored, std::span<const float> values) {
  constexpr std::size_t kPiece = 4 * precision::kGroup;
  std::array<float, kPiece> again;
  const auto elements = static_cast<std::int64_t>(values.size());
  const std::byte* history = stored + precision::history_offset(level, elements);
  double square = 0;
  double off = 0;
  for (std::size_t first = 0; first < values.size(); first += kPiece) {
    const std::span<const float> piece = values.subspan(first, std::min(kPiece, values.size() - first));
    const auto before = static_cast<std::int64_t>(first);
    precision::decode(level, stored + precision::payload_bytes(level, before),
                      history + precision::history_bytes(level, before), static_cast<std::int64_t>(piece.size()),
                      again.data());
    for (std::size_t i = 0; i < piece.size(); ++i) {
      const double d = static_cast<double>(again[i]) - static_cast<double>(piece[i]);
      square += static_cast<double>(piece[i]) * static_cast<double>(piece[i]);
      off += d * d;
    }
  }
  return square > 0 ? off / square : 0;
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

precision::Level carried_level(const TrainOptions& options) {
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

void add_carried_rooms(Graph& graph, precision::Level level, std::int64_t parts) {
  const auto outputs = graph.outputs;
  for (const auto& [label, id] : outputs) {
    if (!label.starts_with(kOut)) continue;
    const TensorType type = room_type(level, graph.at(id).type);
    for (std::int64_t part = 0; part < parts; ++part) {
      graph.add({.name = room_name(label.substr(kOut.size()), part), .type = type, .role = Role::kOptimizer});
    }
  }
}

std::vector<CarriedTensors> carried_tensors(const Graph& graph) {
  std::vector<CarriedTensors> out;
  for (const auto& [label, id] : graph.outputs) {
    if (!label.starts_with(kOut)) continue;
    const std::string which = label.substr(kOut.size());
    const auto in = graph.find(std::string(kIn) + which);
    require(in.has_value(), "what is carried comes in again");
    CarriedTensors& made = out.emplace_back(CarriedTensors{.in = *in, .out = id, .rooms = {}});
    while (const auto room = graph.find(room_name(which, static_cast<std::int64_t>(made.rooms.size())))) {
      made.rooms.push_back(*room);
    }
    require(!made.rooms.empty(), "what is carried has room to wait in");
  }
  return out;
}

Carried::Carried(const TrainOptions& options)
    : level_(carried_level(options)), seed_(options.seed), parts_(static_cast<std::size_t>(options.accumulate)) {
  if (options.carry_state && options.lengths != "fixed") {
    throw UserError("--carry-state: sequences of varying lengths are apart from each other; leave --lengths fixed");
  }
  if (!options.carry_state && !options.precision.carried.empty()) {
    throw UserError("--carried-precision is for runs with --carry-state");
  }
}

void Carried::store(State& s, std::span<const float> values, std::uint64_t run, std::span<std::byte> room,
                    std::string& trouble) const {
  const auto elements = static_cast<std::int64_t>(values.size());
  const precision::CodecKey key{.seed = seed_, .step = run, .tensor = hash_text(s.name)};
  s.level = level_;
  const unsigned flags = precision::encode(level_, values.data(), elements, key, room.data());
  if (level_ == precision::Level::kFp32) return;
  if (level_ != precision::Level::kBf16 && precision::must_stay_exact(flags)) {
    s.level = precision::Level::kBf16;
    trouble = fmt::format("'{}' has values that {} cannot hold; it is kept in bf16", s.name, precision::name(level_));
    static_cast<void>(precision::encode(s.level, values.data(), elements, key, room.data()));
  }
  room.back() = static_cast<std::byte>(precision::index_of(s.level) + 1);
  s.error = rounding_error(s.level, room.data(), values);
}

void Carried::write(Stepper& stepper, std::int64_t part, bool begins) {
  for (const CarriedTensors& t : stepper.carried()) {
    const TensorId from = t.rooms.at(static_cast<std::size_t>(part));
    const std::span<std::byte> values = host_bytes(stepper, t.in, values_);
    const std::span<const std::byte> room = fetched(stepper, from, room_);
    const auto elements = static_cast<std::int64_t>(values.size() / sizeof(float));
    std::optional<precision::Level> level = level_;
    if (level_ != precision::Level::kFp32) level = level_in(room, elements, stepper.graph().at(from).name);
    if (begins || !level) {
      std::fill(values.begin(), values.end(), std::byte{});
    } else {
      precision::decode(*level, room.data(), elements, reinterpret_cast<float*>(values.data()));
    }
    send(stepper, t.in, values);
  }
}

std::string Carried::take(Stepper& stepper, std::int64_t part, std::uint64_t run) {
  std::string trouble;
  std::vector<State>& states = parts_.at(static_cast<std::size_t>(part));
  for (std::size_t i = 0; i < stepper.carried().size(); ++i) {
    const CarriedTensors& t = stepper.carried()[i];
    const TensorId to = t.rooms.at(static_cast<std::size_t>(part));
    if (i == states.size()) states.push_back({.name = stepper.graph().at(to).name});
    const std::span<const std::byte> bytes = fetched(stepper, t.out, values_);
    const std::span<std::byte> room = host_bytes(stepper, to, room_);
    const std::span values(reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float));
    store(states[i], values, run, room, trouble);
    send(stepper, to, room);
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

}  // namespace neap
