#include "plan/views.h"

#include "graph/op.h"

namespace neap {

bool is_view(const Graph& graph, const Node& node) {
  return node.op->view_offset != nullptr && node.op->view_offset(call_of(graph, node)).has_value();
}

std::vector<Window> find_views(const Graph& graph) {
  std::vector<Window> windows(graph.tensors.size());
  for (std::uint32_t i = 0; i < windows.size(); ++i) windows[i].root = {i};
  for (const Node& node : graph.nodes) {
    if (node.op->view_offset == nullptr) continue;
    const auto offset = node.op->view_offset(call_of(graph, node));
    if (!offset) continue;
    const Window& base = windows[node.inputs[0].index];
    windows[node.outputs[0].index] = {base.root, base.offset + *offset};
  }
  return windows;
}

}  // namespace neap
