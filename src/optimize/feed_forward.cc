#include "optimize/feed_forward.h"

#include <algorithm>
#include <set>

#include "graph/op.h"
#include "optimize/row_groups.h"

namespace neap {
namespace {

std::int64_t bytes_of(const Graph& graph, TensorId id) { return graph.at(id).type.bytes(); }

// The product that reads what `last` made as its rows, and is in the same piece.
std::optional<NodeId> product_reading(const RowGroups& groups, NodeId last) {
  const TensorId made = groups.at(last).outputs[0];
  for (const NodeId id : groups.readers(made)) {
    const Node& node = groups.at(id);
    if (groups.may_join(last, id) && is_row_product(groups.graph(), node) && node.inputs[0] == made) return id;
  }
  return std::nullopt;
}

// What lies between is wider than what goes in and comes out.
bool is_wide(const Graph& graph, const Node& first, const Node& second) {
  const std::int64_t between = bytes_of(graph, second.inputs[0]);
  return between > bytes_of(graph, first.inputs[0]) && between > bytes_of(graph, second.outputs[0]);
}

void join(RowGroups& groups, NodeId first) {
  std::vector<NodeId> nodes = elementwise_chain(groups, first, true);
  const auto second =
      groups.only_reader(groups.at(nodes.back()).outputs[0]) ? product_reading(groups, nodes.back()) : std::nullopt;
  if (!second || !is_wide(groups.graph(), groups.at(first), groups.at(*second))) return;
  const auto tail = elementwise_chain(groups, *second, groups.is_training());
  nodes.insert(nodes.end(), tail.begin(), tail.end());
  if (const auto group = groups.group(kFeedForward.makes, nodes)) groups.put(*group);
}

// In the step's graph:
//   wide = linear(x, w1); h = f(wide); y = linear(h, w2)
//   dw2 = linear_grad_weight(h, dy); dh = matmul(dy, w2); dwide = f_grad(dh, wide or h)
//   dw1 = linear_grad_weight(x, dwide); dx = matmul(dwide, w1)
struct Layer {
  NodeId wide, f, y;
  NodeId dh, df;
  NodeId dx;  // none where x needs no gradient
};

class LayerFinder {
 public:
  explicit LayerFinder(const RowGroups& groups) : groups_(groups) {}

  std::optional<Layer> at(NodeId wide) const {
    Layer out{.wide = wide};
    if (!is(wide, "linear") || groups_.at(wide).phase != Phase::kForward) return std::nullopt;
    const TensorId made = groups_.at(wide).outputs[0];
    for (const NodeId id : groups_.readers(made)) {
      if (groups_.may_join(wide, id) && is_row_elementwise(groups_.graph(), groups_.at(id))) out.f = id;
    }
    if (!out.f) return std::nullopt;
    const TensorId h = groups_.at(out.f).outputs[0];
    for (const NodeId id : groups_.readers(h)) {
      if (groups_.may_join(wide, id) && is(id, "linear") && groups_.at(id).inputs[0] == h) out.y = id;
    }
    if (!out.y || !is_wide(groups_.graph(), groups_.at(wide), groups_.at(out.y))) return std::nullopt;
    return with_backward(out);
  }

 private:
  bool is(NodeId id, std::string_view op) const { return groups_.at(id).op->name == op; }

  // All who read what lies between in backward are known, so that it can be made there.
  std::optional<Layer> with_backward(Layer out) const {
    const TensorId w1 = groups_.at(out.wide).inputs[1];
    const TensorId w2 = groups_.at(out.y).inputs[1];
    std::vector<TensorId> made = groups_.at(out.f).outputs;  // with a mask, say
    made.push_back(groups_.at(out.wide).outputs[0]);
    for (const TensorId between : made) {
      if (is_output(groups_.graph(), between)) return std::nullopt;
      for (const NodeId id : groups_.readers(between)) {
        if (id == out.f || id == out.y || is(id, "linear_grad_weight")) continue;
        const bool is_other = out.df && out.df != id;
        if (!is_row_elementwise(groups_.graph(), groups_.at(id)) || is_other || !groups_.is_free(id))
          return std::nullopt;
        out.df = id;
      }
    }
    if (!out.df || groups_.at(out.df).phase != Phase::kBackward) return std::nullopt;
    for (const TensorId in : groups_.at(out.df).inputs) {
      const NodeId producer = in ? groups_.graph().at(in).producer : NodeId{};
      const bool is_product = producer && is(producer, "matmul") && groups_.at(producer).inputs[1] == w2;
      if (is_product && groups_.may_join(producer, out.df) && groups_.only_reader(in)) out.dh = producer;
    }
    const auto dx = product_reading(groups_, out.df);
    if (dx && groups_.at(*dx).inputs[1] == w1) out.dx = *dx;
    return out.dh ? std::optional(out) : std::nullopt;
  }

  const RowGroups& groups_;
};

// Forward is one group with nothing of it kept, backward another that begins with the same products.
void join_again(RowGroups& groups, const Layer& layer) {
  auto nodes = elementwise_chain(groups, layer.y, true);
  nodes.insert(nodes.begin(), {layer.wide, layer.f});
  std::vector<NodeId> back = {layer.dh, layer.df};
  if (layer.dx) back.push_back(layer.dx);
  auto backward = groups.group(kFeedForwardAgain.makes, back);
  auto forward = groups.group(kFeedForwardAgain.makes, nodes);
  if (!backward || !forward) return;
  const TensorId h = groups.at(layer.f).outputs[0];
  std::erase_if(forward->results, [&](TensorId id) {
    const NodeId maker = groups.graph().at(id).producer;
    return maker == layer.wide || maker == layer.f;
  });
  backward->nodes.insert(backward->nodes.begin(), {layer.wide, layer.f});
  for (const NodeId reader : groups.readers(h)) {
    if (!is_row_elementwise(groups.graph(), groups.at(reader)) && reader != layer.y) {
      backward->before = std::min(backward->before, reader);
      if (std::find(backward->results.begin(), backward->results.end(), h) == backward->results.end()) {
        backward->results.push_back(h);
      }
    }
  }
  groups.put_both(*forward, nodes, *backward, back);
}

}  // namespace

Graph with_tiled_feed_forward(const Graph& graph, const Where& where) {
  RowGroups groups(graph, where);
  for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
    if (groups.is_free({i}) && is_row_product(graph, graph.nodes[i])) join(groups, {i});
  }
  return groups.is_changed() ? groups.finish() : graph;
}

Graph with_feed_forward_again(const Graph& graph, const Where& where) {
  RowGroups groups(graph, where);
  if (!groups.is_training()) return graph;
  for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
    if (!groups.is_free({i})) continue;
    if (const auto layer = LayerFinder(groups).at({i})) join_again(groups, *layer);
  }
  return groups.is_changed() ? groups.finish() : graph;
}

}  // namespace neap
