#include "optimize/product_rows.h"

#include <algorithm>

#include "graph/op.h"
#include "optimize/row_groups.h"

namespace neap {
namespace {

// In backward: the product that takes the chain's end as its rows.
std::optional<NodeId> next_product(const RowGroups& groups, NodeId last) {
  const TensorId made = groups.at(last).outputs[0];
  for (const NodeId id : groups.readers(made)) {
    const Node& node = groups.at(id);
    if (groups.may_join(last, id) && is_row_product(groups.graph(), node) && node.inputs[0] == made) return id;
  }
  return std::nullopt;
}

// Results of forward that only the group reads stay inside; one that backward reads as well would be kept, or need the
// whole group to be made again, where now one cheap pass makes it from its input (decision 0004).
void join(RowGroups& groups, NodeId product) {
  const bool alone = groups.is_training() && groups.at(product).phase == Phase::kForward;
  std::vector<NodeId> nodes = elementwise_chain(groups, product, alone);
  if (nodes.size() < 2) return;
  if (groups.at(product).phase == Phase::kBackward) {
    if (const auto second = next_product(groups, nodes.back())) {
      auto longer = nodes;
      longer.push_back(*second);
      const auto both = groups.group(kProductRows.makes, longer);
      if (both && groups.put(*both)) return;
    }
  }
  if (const auto group = groups.group(kProductRows.makes, nodes)) groups.put(*group);
}

}  // namespace

Graph with_product_rows(const Graph& graph, const Where& where) {
  RowGroups groups(graph, where);
  for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
    if (groups.is_free({i}) && is_row_product(graph, graph.nodes[i])) join(groups, {i});
  }
  return groups.is_changed() ? groups.finish() : graph;
}

}  // namespace neap
