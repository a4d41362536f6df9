#include "remat/from_graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/op.h"
#include "plan/views.h"

namespace neap::remat {
namespace {

constexpr TensorIndex kNone = UINT32_MAX;

void push_new(std::vector<TensorIndex>& list, TensorIndex t) {
  if (std::find(list.begin(), list.end(), t) == list.end()) list.push_back(t);
}

}  // namespace

Problem problem_of(const Graph& graph, const Costs& costs) {
  const std::vector<Window> views = find_views(graph);
  Problem out;
  std::vector<TensorIndex> index(graph.tensors.size(), kNone);
  const auto add = [&](TensorId id, OpIndex op) {
    index[id.index] = static_cast<TensorIndex>(out.tensors.size());
    out.tensors.push_back({.name = graph.at(id).name, .bytes = graph.at(id).type.bytes(), .op = op});
    return index[id.index];
  };
  for (std::uint32_t i = 0; i < graph.tensors.size(); ++i) {
    if (graph.tensors[i].role != Role::kActivation && views[i].root.index == i) add(TensorId{i}, kNoOp);
  }
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (is_view(views, node)) continue;
    const auto op_index = static_cast<OpIndex>(out.ops.size());
    Op op{.name = fmt::format("{}#{}", node.name.empty() ? node.op->name : node.name, n),
          .ms = n < costs.ms.size() ? costs.ms[n] : 0,
          .workspace = n < costs.workspace.size() ? costs.workspace[n] : 0,
          .recompute = !node.op->side_effects()};
    for (const TensorId id : node.inputs) {
      if (id && index[views[id.index].root.index] != kNone) push_new(op.inputs, index[views[id.index].root.index]);
    }
    for (const TensorId id : node.outputs) {
      if (id && views[id.index].root == id) op.outputs.push_back(add(id, op_index));
    }
    out.ops.push_back(std::move(op));
  }
  for (const auto& [name, id] : graph.outputs) {
    if (index[views[id.index].root.index] != kNone) push_new(out.keep, index[views[id.index].root.index]);
  }
  return out;
}

}  // namespace neap::remat
