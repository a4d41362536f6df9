#include "optimize/weighted.h"

#include <algorithm>

#include "graph/op.h"
#include "optimize/once.h"

namespace neap {
namespace {

TensorId input(const Node& node, std::size_t i) { return i < node.inputs.size() ? node.inputs[i] : TensorId{}; }

}  // namespace

bool is_weight(const Graph& graph, TensorId id) {
  if (!id) return false;
  const Tensor& t = graph.at(id);
  const bool is_made_once = t.producer && graph.at(t.producer).attrs.integer(kOnce, 0) != 0;
  return (is_state(t.role) || is_made_once) && t.type.dtype == DType::kF32 && t.type.shape.is_static();
}

namespace {

// gemm adds c as linear does its bias.
bool is_bias(const Graph& graph, const Node& node, std::int64_t out) {
  const TensorId c = input(node, 2);
  if (!c) return true;
  const Shape& shape = graph.at(c).type.shape;
  return node.attrs.real("beta", 1) == 1 && shape.rank() == 1 && shape.size(0) == out;
}

}  // namespace

std::optional<WeightedProduct> weighted_product(const Graph& graph, const Node& node) {
  const std::string_view op = node.op->name;
  if (op != "linear" && op != "matmul" && op != "gemm") return std::nullopt;
  WeightedProduct out{.x = input(node, 0), .weight = input(node, 1)};
  if (!is_weight(graph, out.weight) || graph.at(out.x).type.dtype != DType::kF32) return std::nullopt;
  const Shape& weight = graph.at(out.weight).type.shape;
  if (weight.rank() != 2 || graph.at(out.x).type.shape.rank() < 1) return std::nullopt;
  const bool is_plain = node.attrs.integer("trans_a", 0) == 0 && node.attrs.real("alpha", 1) == 1;
  if (!is_plain) return std::nullopt;
  out.transposed = op == "linear" ? node.attrs.integer("transposed", 0) != 0 : node.attrs.integer("trans_b", 0) == 0;
  out.in = weight.size(out.transposed ? 0 : 1);
  out.out = weight.size(out.transposed ? 1 : 0);
  if (op == "gemm" && !is_bias(graph, node, out.out)) return std::nullopt;
  if (op != "matmul") out.bias = input(node, 2);
  return out;
}

bool is_inference(const Graph& graph) {
  return std::all_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const Node& node) { return node.phase == Phase::kForward && node.op->mutates.empty(); });
}

}  // namespace neap
