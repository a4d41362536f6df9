// Which tensors are windows into others.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace neap {

struct Window {
  TensorId root;            // the tensor that owns the bytes; itself where it is no view
  std::int64_t offset = 0;  // into the root
};

// One a tensor.
std::vector<Window> find_views(const Graph& graph);

// The node does not run: its output is a view.
inline bool is_view(const std::vector<Window>& views, const Node& node) {
  return !node.outputs.empty() && views[node.outputs[0].index].root != node.outputs[0];
}
bool is_view(const Graph& graph, const Node& node);

}  // namespace neap
