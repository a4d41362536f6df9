// What the rest of Neap may know of an op. One OpDef an op, in the op's own folder; ops/registry.cc lists them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace neap {

struct KernelEntry;  // ops/kernel.h

// One call of an op with its types, outside of any graph: what shape rules, kernels and cost models need.
struct OpCall {
  const OpDef* op = nullptr;
  Attrs attrs;
  std::vector<std::optional<TensorType>> inputs;
  std::vector<TensorType> outputs;  // empty while they are being inferred

  bool has(std::size_t i) const { return i < inputs.size() && inputs[i].has_value(); }
  const TensorType& in(std::size_t i) const;  // UserError when not given
  const Shape& shape(std::size_t i) const { return in(i).shape; }
};

OpCall call_of(const Graph& graph, const Node& node);

// What an op's gradient rule works with.
struct GradientCall {
  Builder& g;
  const Node& node;
  const Values& dy;                 // one an output; a default Value where nothing flows back
  const std::vector<bool>& wanted;  // one an input: is its gradient needed?
  Values sums = {};                 // one an input: what the nodes behind this one have given so far
  std::vector<bool> taken = {};     // one an input: the rule's result includes that sum

  Value x(std::size_t i) const { return i < node.inputs.size() ? node.inputs[i] : Value{}; }
  Value y(std::size_t i) const { return node.outputs[i]; }
  bool wants(std::size_t i) const { return i < wanted.size() && wanted[i]; }
  // The sum so far, for a rule that adds its part to it by itself (in place, say) and returns the whole; a default
  // Value when there is none. Without this call the sweep adds the rule's part to the sum.
  Value take_sum(std::size_t i) {
    if (i >= sums.size() || !sums[i]) return {};
    taken.resize(sums.size());
    taken[i] = true;
    return sums[i];
  }
};

struct InOut {
  std::uint8_t input;
  std::uint8_t output;
};

using Types = std::vector<TensorType>;

struct OpDef {
  std::string_view name;

  // Types of the outputs; UserError when the inputs do not fit. Must work on symbolic dims.
  Types (*infer)(const OpCall&) = nullptr;
  // One Value an input, default where none; null: the op has no gradient.
  Values (*gradient)(GradientCall&) = nullptr;

  // Best first, reference last.
  const KernelEntry* kernels = nullptr;
  std::size_t kernel_count = 0;

  // Floating-point operations; null: one an element of the first output.
  double (*flops)(const OpCall&) = nullptr;
  // Bytes read and written; null: all inputs and outputs once.
  double (*traffic)(const OpCall&) = nullptr;

  // Output may take the place of input when that input is not needed afterwards and has as many bytes.
  std::span<const InOut> in_place = {};
  // Inputs that the node changes (state only): never recomputed, never reordered.
  std::span<const std::uint8_t> mutates = {};
  // Bit i set: output i may be left out when nothing reads it (the kernel gets a null pointer).
  std::uint32_t optional_outputs = 0;

  // Output 0 is input 0's memory from this byte on: no kernel runs. Null or nullopt: not a view.
  std::optional<std::int64_t> (*view_offset)(const OpCall&) = nullptr;
  // Input i may be produced in place, at this byte of output 0 (concatenation along the outermost axis).
  std::optional<std::int64_t> (*part_offset)(const OpCall&, std::size_t input) = nullptr;

  // One pass over memory, no reduction across elements that is not in its inputs: cheap to run again.
  bool cheap = false;
  bool elementwise = false;
  bool random = false;  // reads the step's random key

  bool side_effects() const { return !mutates.empty(); }
};

// Null when there is none. Defined by ops/registry.cc.
const OpDef* find_op(std::string_view name);
// UserError names the closest known op.
const OpDef& op_named(std::string_view name);
std::span<const OpDef* const> all_ops();

double flops_of(const OpCall& call);
double traffic_of(const OpCall& call);

}  // namespace neap
