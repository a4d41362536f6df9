#include "optimize/conv_rows.h"

#include "graph/op.h"
#include "optimize/row_groups.h"

namespace neap {
namespace {

bool is_convolution(const Node& node) { return node.op->name == "conv" || node.op->name == "conv_grad_data"; }

}  // namespace

// As for products (product_rows.cc): what backward reads besides stays outside.
Graph with_conv_rows(const Graph& graph, const Where& where) {
  RowGroups groups(graph, where);
  for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const NodeId id{i};
    if (!groups.is_free(id) || !is_convolution(graph.at(id))) continue;
    const bool alone = groups.is_training() && graph.at(id).phase == Phase::kForward;
    const auto nodes = elementwise_chain(groups, id, alone);
    const auto group = nodes.size() > 1 ? groups.group(kConvRows.makes, nodes) : std::nullopt;
    if (group) groups.put(*group);
  }
  return groups.is_changed() ? groups.finish() : graph;
}

}  // namespace neap
