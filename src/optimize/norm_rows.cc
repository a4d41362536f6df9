#include "optimize/norm_rows.h"

#include <algorithm>

#include "graph/op.h"
#include "ops/tiled/rows.h"
#include "optimize/row_groups.h"

namespace neap {
namespace {

bool is_norm(const Node& node) { return node.op->name == "layer_norm" || node.op->name == "rms_norm"; }

class NormRows {
 public:
  NormRows(const Graph& graph, const Where& where) : graph_(graph), groups_(graph, where) {}

  Graph run() {
    for (std::uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!groups_.is_free({i}) || !is_norm(graph_.nodes[i]) || graph_.nodes[i].phase != Phase::kForward) continue;
      groups_.is_training() ? join_for_training({i}) : join({i});
    }
    return groups_.is_changed() ? groups_.finish() : graph_;
  }

 private:
  bool is_neighbour(NodeId id) const {
    const Node& node = graph_.at(id);
    return is_row_product(graph_, node) || is_row_elementwise(graph_, node) || is_row_group(*node.op);
  }

  // What makes x of the norm, if it may be part of the group.
  std::optional<NodeId> before(NodeId norm) const {
    const NodeId id = graph_.at(graph_.at(norm).inputs[0]).producer;
    return id && groups_.may_join(id, norm) && is_neighbour(id) ? std::optional(id) : std::nullopt;
  }

  // Who reads y first.
  std::optional<NodeId> behind(NodeId norm) const {
    const auto& readers = groups_.readers(graph_.at(norm).outputs[0]);
    if (readers.empty()) return std::nullopt;
    const NodeId id = *std::min_element(readers.begin(), readers.end());
    return groups_.may_join(norm, id) && is_neighbour(id) ? std::optional(id) : std::nullopt;
  }

  bool put(std::vector<NodeId> nodes) {
    const auto group = groups_.group(kNormRows.makes, std::move(nodes));
    return group && groups_.put(*group);
  }

  void join(NodeId norm) {
    const auto first = before(norm);
    const auto last = behind(norm);
    if (first && last && put({*first, norm, *last})) return;
    if (last && put({norm, *last})) return;
    if (first) put({*first, norm});
  }

  // y is read by one product of forward, and by backward.
  void join_for_training(NodeId norm) {
    const TensorId y = graph_.at(norm).outputs[0];
    NodeId product, later;
    for (const NodeId id : groups_.readers(y)) {
      const Node& node = graph_.at(id);
      if (node.phase == Phase::kForward) {
        if (product || !groups_.may_join(norm, id) || !is_row_product(graph_, node) || node.inputs[0] != y) return;
        product = id;
      } else if (!later || id < later) {
        later = id;
      }
    }
    if (!product || is_output(graph_, y)) return;
    auto group = groups_.group(kNormRows.makes, {norm, product});
    if (!group) return;
    std::erase(group->results, y);
    if (later) {
      groups_.put_and_make_again(*group, norm, later);
    } else {
      groups_.put(*group);
    }
  }

  const Graph& graph_;
  RowGroups groups_;
};

}  // namespace

Graph with_norm_rows(const Graph& graph, const Where& where) { return NormRows(graph, where).run(); }

}  // namespace neap
