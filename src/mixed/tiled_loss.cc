#include "mixed/tiled_loss.h"

#include "graph/op.h"
#include "optimize/rewrite.h"

namespace neap {
namespace {

// The linear layer that makes the logits of this loss, if the two can be one.
NodeId layer_of(const Graph& graph, const std::vector<std::vector<NodeId>>& readers, const Node& loss,
                std::int64_t least) {
  if (loss.op->name != "cross_entropy") return {};
  const TensorId sums = loss.outputs[1];
  const TensorId logits = loss.inputs[0];
  const bool is_wanted_elsewhere = !readers[sums.index].empty() || is_output(graph, sums) ||
                                   readers[logits.index].size() != 1 || is_output(graph, logits);
  const NodeId layer = graph.at(logits).producer;
  if (is_wanted_elsewhere || !layer || graph.at(layer).op->name != "linear") return {};
  const bool is_plain = graph.at(layer).attrs.integer("transposed", 0) == 0;
  return is_plain && graph.at(logits).type.shape.size(-1) >= least ? layer : NodeId{};
}

// One node in the place of the loss.
void replace(const Graph& graph, NodeId at, NodeId layer, Rewrite& rewrite) {
  const Node& loss = graph.at(at);
  const Node& linear = graph.at(layer);
  const TensorId bias = linear.inputs.size() > 2 ? linear.inputs[2] : TensorId{};
  Node node{.op = &op_named("linear_loss"),
            .name = loss.name,
            .layer = loss.layer,
            .inputs = {linear.inputs[0], linear.inputs[1], bias, loss.inputs[1]},
            .attrs = loss.attrs,
            .phase = loss.phase};
  rewrite.put(at, std::move(node), {loss.outputs[0]});
  rewrite.remove(layer);
  rewrite.remove(at);
}

}  // namespace

Graph with_tiled_loss(const Graph& graph, std::int64_t least_classes) {
  const auto readers = readers_of(graph);
  Rewrite rewrite(graph);
  for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const NodeId layer = layer_of(graph, readers, graph.nodes[i], least_classes);
    if (layer) replace(graph, {i}, layer, rewrite);
  }
  return rewrite.finish();
}

}  // namespace neap
