#include "optimize/row_invariance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "ops/evaluate.h"

namespace neap {
namespace {

std::string text_of(const OpCall& call) {
  std::string out(call.op->name);
  for (const auto& input : call.inputs) out += " " + (input ? input->text() : "-");
  for (const auto& [key, value] : call.attrs) {
    if (const auto* number = std::get_if<std::int64_t>(&value)) out += fmt::format(" {}={}", key, *number);
    if (const auto* list = std::get_if<Ints>(&value)) {
      for (const std::int64_t each : *list) out += fmt::format(" {}:{}", key, each);
    }
  }
  return out;
}

std::string numerics_of(const OpCall& call) { return prepare_cpu_kernel(call)->numerics(); }

std::int64_t count_leading(const Shape& shape, int axes) {
  std::int64_t out = 1;
  for (int i = 0; i < axes; ++i) out *= shape.size(i);
  return out;
}

// The call over all rows with less of the outermost axis: at least two of it, and `least` rows.
OpCall shortened(const RowProgram& program, const ValueTypes& values, std::size_t at, std::int64_t least) {
  const RowStep& step = program.steps[at];
  OpCall out{.op = step.op, .attrs = step.attrs};
  const auto cut = [&](Shape shape) {
    const std::int64_t each = count_leading(shape, program.axes) / shape.size(0);
    shape[0] = Dim(std::min(shape.size(0), std::max<std::int64_t>(2, (least + each - 1) / each)));
    return shape;
  };
  for (const int i : step.inputs) {
    const auto value = static_cast<std::size_t>(i);
    out.inputs.push_back(i < 0 ? std::nullopt : values[value]);
    const bool is_rows = value >= program.inputs.size() || program.inputs[value] == RowInput::kRows;
    if (i >= 0 && is_rows) out.inputs.back()->shape = cut(values[value]->shape);
  }
  for (const auto& [key, value] : step.attrs) {
    if (const auto* shape = std::get_if<Shape>(&value)) out.attrs.set(key, cut(*shape));
  }
  out.outputs = out.op->infer(out);
  return out;
}

// In [-1, 1): a congruential generator, as there are millions of them.
void fill(HostTensor& values, std::uint32_t state) {
  constexpr float kUnit = 1.0F / (1 << 23);
  const std::int64_t count = values.type.elements();
  for (std::int64_t i = 0; i < count; ++i) {
    state = state * 1664525U + 1013904223U;
    values.floats()[i] = static_cast<float>(state >> 8) * kUnit - 1;
  }
}

// The first output on random numbers, a stream of them an input: a call with fewer rows gets the first ones.
std::vector<std::byte> result_of(const OpCall& call) {
  Graph graph;
  std::map<std::string, HostTensor> leaves;
  Node node{.op = call.op, .name = "probe", .attrs = call.attrs};
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (!call.inputs[i]) {
      node.inputs.emplace_back();
      continue;
    }
    const std::string name = fmt::format("in{}", i);
    node.inputs.push_back(graph.add({.name = name, .type = *call.inputs[i], .role = Role::kInput}));
    HostTensor& values = leaves.emplace(name, HostTensor(*call.inputs[i])).first->second;
    fill(values, static_cast<std::uint32_t>(i) + 1);
  }
  const NodeId at = graph.append(std::move(node));
  return evaluate(graph, leaves)[graph.at(at).outputs[0].index].data;
}

bool is_prefix(const std::vector<std::byte>& part, const std::vector<std::byte>& whole) {
  return part.size() <= whole.size() && std::memcmp(part.data(), whole.data(), part.size()) == 0;
}

bool agrees(const RowProgram& program, const ValueTypes& values, std::size_t at) {
  const std::int64_t rows = rows_of(program, values);
  const std::int64_t rest = rows % program.chunk == 0 ? program.chunk : rows % program.chunk;
  const std::string used = numerics_of(shortened(program, values, at, rows));
  const bool is_one_kernel = numerics_of(chunk_call(program, values, at, program.chunk)) == used &&
                             numerics_of(chunk_call(program, values, at, rest)) == used;
  if (!is_one_kernel) return false;
  // A row of an image has many positions: few of them show as much.
  const bool is_image = program.axes + 1 < values[program.inputs.size()]->shape.rank();
  const std::int64_t most = is_image ? 2 : program.chunk;
  const OpCall many = shortened(program, values, at, most + 1);
  if (numerics_of(many) != used) return false;
  const std::vector<std::byte> whole = result_of(many);
  return is_prefix(result_of(chunk_call(program, values, at, std::min(most, program.chunk))), whole) &&
         is_prefix(result_of(chunk_call(program, values, at, std::min(most, rest))), whole);
}

}  // namespace

bool is_row_invariant(const RowProgram& program, const ValueTypes& values, std::size_t at) {
  static std::mutex mutex;
  static std::map<std::string, bool> known;
  const std::string key = fmt::format("{} in chunks of {}",
                                      text_of(shortened(program, values, at, rows_of(program, values))), program.chunk);
  const std::scoped_lock lock(mutex);
  const auto [it, is_new] = known.try_emplace(key);
  if (is_new) it->second = agrees(program, values, at);
  return it->second;
}

}  // namespace neap
