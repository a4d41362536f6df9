#include "mixed/gelu_layers.h"

#include <algorithm>

#include "graph/op.h"
#include "optimize/rewrite.h"

namespace neap {
namespace {

// Vectors of eight.
bool has_even_sides(const Shape& weight) {
  return weight.rank() == 2 && weight.size(0) % 8 == 0 && weight.size(1) % 8 == 0;
}

class Finder {
 public:
  explicit Finder(const Graph& graph) : graph_(graph), readers_(readers_of(graph)) {}

  bool is(NodeId id, std::string_view op) const { return id && graph_.at(id).op->name == op; }
  bool is_tanh(NodeId id, std::string_view op) const {
    return is(id, op) && graph_.at(id).attrs.text("approximate", "none") == "tanh";
  }
  const std::vector<NodeId>& readers(TensorId id) const { return readers_[id.index]; }
  bool is_read_once(TensorId id) const { return readers(id).size() == 1 && !is_output(graph_, id); }

  // The linear layer in front of this gelu, if they can be one.
  NodeId layer_before(NodeId gelu) const {
    if (!is_tanh(gelu, "gelu")) return {};
    const TensorId h = graph_.at(gelu).inputs[0];
    const NodeId layer = graph_.at(h).producer;
    if (!is(layer, "linear") || !is_read_once(h) || graph_.at(layer).attrs.integer("transposed", 0) != 0) return {};
    return has_even_sides(graph_.at(graph_.at(layer).inputs[1]).type.shape) ? layer : NodeId{};
  }

  // The product whose result only this gelu_grad reads.
  NodeId product_before(NodeId slope) const {
    if (!is_tanh(slope, "gelu_grad")) return {};
    const TensorId d = graph_.at(slope).inputs[0];
    const NodeId product = graph_.at(d).producer;
    if (!is(product, "matmul") || !is_read_once(d)) return {};
    const Node& node = graph_.at(product);
    const bool is_plain = node.attrs.integer("trans_a", 0) == 0 && node.attrs.integer("trans_b", 0) == 0;
    return is_plain && has_even_sides(graph_.at(node.inputs[1]).type.shape) ? product : NodeId{};
  }

  // The gradient of a weight from gelu(h) and dy.
  NodeId weight_gradient(TensorId h, TensorId dy) const {
    for (const NodeId id : readers(dy)) {
      if (!is(id, "linear_grad_weight") || graph_.at(id).inputs[1] != dy) continue;
      const TensorId x = graph_.at(id).inputs[0];
      const NodeId maker = graph_.at(x).producer;
      const bool is_one =
          is(maker, "linear_gelu") && graph_.at(maker).outputs[0] == x && graph_.at(maker).outputs[1] == h;
      const bool is_apart = is_tanh(maker, "gelu") && graph_.at(maker).inputs[0] == h;
      if (is_one || is_apart) return id;
    }
    return {};
  }

  // The gradient of the layer in front of gelu, whose bias wants dh's sums.
  NodeId bias_gradient(TensorId dh) const {
    for (const NodeId id : readers(dh)) {
      const bool is_of_dh = is(id, "linear_grad_weight") && graph_.at(id).inputs[1] == dh;
      if (!is_of_dh) continue;
      const TensorId db = graph_.at(id).outputs[1];
      if (!readers(db).empty() || is_output(graph_, db)) return id;
    }
    return {};
  }

 private:
  const Graph& graph_;
  std::vector<std::vector<NodeId>> readers_;
};

void join(const Graph& graph, NodeId gelu, NodeId layer, Rewrite& rewrite) {
  const Node& linear = graph.at(layer);
  Node node{.op = &op_named("linear_gelu"),
            .name = linear.name,
            .layer = linear.layer,
            .inputs = linear.inputs,
            .phase = linear.phase};
  rewrite.put(gelu, std::move(node), {graph.at(gelu).outputs[0], linear.outputs[0]});
  rewrite.remove(layer);
  rewrite.remove(gelu);
}

// The node stands where the first of those it replaces stood; the weight's gradient, which reads its gelu, behind it.
void join_gradient(const Graph& graph, const Finder& find, NodeId slope, NodeId product, Rewrite& rewrite) {
  const Node& grad = graph.at(slope);
  const TensorId dy = graph.at(product).inputs[0];
  const TensorId h = grad.inputs[1];
  // A node may be both, of neighbouring layers: the first that comes has it.
  const auto if_left = [&](NodeId id) { return id && !rewrite.is_removed(id) ? id : NodeId{}; };
  const NodeId weight = if_left(find.weight_gradient(h, dy));
  const NodeId bias = if_left(find.bias_gradient(grad.outputs[0]));
  const NodeId first = weight && weight.index < product.index ? weight : product;
  const bool has_more = weight || bias;
  Node node{.op = &op_named("gelu_linear_grad"),
            .name = grad.name,
            .layer = grad.layer,
            .inputs = {dy, graph.at(product).inputs[1], h},
            .phase = grad.phase};
  std::vector<TensorId> made = {grad.outputs[0]};
  const TensorId again = rewrite.fresh();
  if (has_more) {
    node.attrs.set("more", std::int64_t{1});
    made.insert(made.end(), {again, bias ? graph.at(bias).outputs[1] : TensorId{}});
  }
  rewrite.put(first, std::move(node), made);
  rewrite.remove(slope);
  rewrite.remove(product);
  if (weight) {
    Node moved = graph.at(weight);
    moved.inputs[0] = again;
    rewrite.put(first, std::move(moved), graph.at(weight).outputs);
    rewrite.remove(weight);
  }
  if (!bias) return;
  Node rest = graph.at(bias);
  rest.name += ".weight";
  rewrite.put(bias, std::move(rest), {graph.at(bias).outputs[0], TensorId{}});
  rewrite.remove(bias);
}

}  // namespace

Graph with_gelu_layers(const Graph& graph) {
  const Finder find(graph);
  Rewrite rewrite(graph);
  for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const NodeId layer = find.layer_before({i});
    if (layer) join(graph, {i}, layer, rewrite);
  }
  return rewrite.finish();
}

Graph with_gelu_gradients(const Graph& graph) {
  const Finder find(graph);
  Rewrite rewrite(graph);
  for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const NodeId product = find.product_before({i});
    if (product) join_gradient(graph, find, {i}, product, rewrite);
  }
  return rewrite.finish();
}

}  // namespace neap
