#include "onnx/patterns/match.h"
#include "onnx/patterns/patterns.h"

namespace neap::onnx {
namespace {

std::optional<Replacement> rule(const Match& m, const Node& node) {
  if (node.op->name != "add" || node.inputs.size() != 2) return std::nullopt;
  for (const std::size_t i : {0UL, 1UL}) {
    const TensorId y = node.inputs[i];
    const TensorId bias = node.inputs[1 - i];
    const Node* linear = m.from(y, "linear");
    if (linear == nullptr || linear->inputs.size() != 2 || m.readers(y) != 1) continue;
    if (!m.is_leaf(bias) || !(m.shape(bias) == Shape{m.shape(y)[-1]})) continue;
    Node whole{.op = linear->op, .inputs = linear->inputs, .attrs = linear->attrs};
    whole.inputs.push_back(bias);
    return Replacement{.nodes = {whole}, .outputs = {{0, 0}}};
  }
  return std::nullopt;
}

}  // namespace

Graph find_bias(const Graph& graph) { return rewrite(graph, rule); }

}  // namespace neap::onnx
