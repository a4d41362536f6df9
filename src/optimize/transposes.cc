#include "optimize/transposes.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "graph/op.h"
#include "optimize/rewrite.h"

namespace neap {
namespace {

Ints perm_of(const Graph& graph, const Node& node) {
  const int rank = graph.at(node.inputs[0]).type.shape.rank();
  Ints reversed(static_cast<std::size_t>(rank));
  std::iota(reversed.rbegin(), reversed.rend(), std::int64_t{0});
  Ints perm = node.attrs.ints("perm", reversed);
  for (std::int64_t& axis : perm) axis += axis < 0 ? rank : 0;
  return perm;
}

bool is_identity(const Ints& perm) {
  for (std::size_t i = 0; i < perm.size(); ++i) {
    if (perm[i] != static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

bool swaps_last_two(Ints perm) {
  if (perm.size() < 2) return false;
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return is_identity(perm);
}

// The flag by which a product transposes its operand; empty: it has none.
std::string flag_of(const Node& node, std::size_t operand) {
  const std::string_view op = node.op->name;
  if (op == "linear") return operand == 1 ? "transposed" : "";
  if (op != "matmul" && op != "gemm") return "";
  return operand == 0 ? "trans_a" : operand == 1 ? "trans_b" : "";
}

// One round; its changes do not touch each other.
class Round {
 public:
  Round(const Graph& graph, const Where& where)
      : graph_(graph), where_(where), readers_(readers_of(graph)), rewrite_(graph), taken_(graph.nodes.size()) {}

  std::optional<Graph> run() {
    for (std::uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!may({i})) continue;
      if (is_transpose({i})) {
        drop_unread({i});
        join({i});
      } else {
        fold({i});
      }
    }
    if (!has_changed_) return std::nullopt;
    return rewrite_.finish();
  }

 private:
  bool may(NodeId id) const { return !taken_[id.index] && (where_.empty() || where_[id.index] >= 0); }
  bool are_together(NodeId a, NodeId b) const { return where_.empty() || where_[a.index] == where_[b.index]; }
  bool is_transpose(NodeId id) const { return graph_.at(id).op->name == "transpose"; }
  void take(NodeId id) {
    taken_[id.index] = true;
    has_changed_ = true;
  }

  bool is_read_once(TensorId id) const { return readers_[id.index].size() == 1 && !is_output(graph_, id); }

  // Elementwise, of one operand, wherever its elements lie; other results than the first are not wanted.
  bool is_plain_unary(const Node& node) const {
    if (!node.op->elementwise || node.op->random || node.op->side_effects() || node.inputs.size() != 1) return false;
    for (std::size_t i = 1; i < node.outputs.size(); ++i) {
      const TensorId other = node.outputs[i];
      if (other && (!readers_[other.index].empty() || is_output(graph_, other))) return false;
    }
    return graph_.at(node.inputs[0]).type.shape == graph_.at(node.outputs[0]).type.shape;
  }

  void drop_unread(NodeId at) {
    const TensorId made = graph_.at(at).outputs[0];
    if (!readers_[made.index].empty() || is_output(graph_, made)) return;
    rewrite_.remove(at);
    take(at);
  }

  // This transpose and the one above it, with what is between.
  void join(NodeId last) {
    if (taken_[last.index]) return;
    std::vector<NodeId> between;
    NodeId above = graph_.at(graph_.at(last).inputs[0]).producer;
    while (above && may(above) && are_together(above, last) && is_read_once(graph_.at(above).outputs[0]) &&
           is_plain_unary(graph_.at(above))) {
      between.insert(between.begin(), above);
      above = graph_.at(graph_.at(above).inputs[0]).producer;
    }
    const bool has_first = above && may(above) && are_together(above, last) && is_transpose(above);
    if (!has_first || (!between.empty() && !is_read_once(graph_.at(above).outputs[0]))) return;
    Ints both;
    const Ints first = perm_of(graph_, graph_.at(above));
    for (const std::int64_t axis : perm_of(graph_, graph_.at(last)))
      both.push_back(first[static_cast<std::size_t>(axis)]);
    if (is_identity(both)) {
      cancel(above, between, last);
    } else if (between.empty()) {
      merge(above, last, both);
    }
  }

  void cancel(NodeId first, const std::vector<NodeId>& between, NodeId last) {
    TensorId now = graph_.at(first).inputs[0];
    const TensorId result = graph_.at(last).outputs[0];
    for (const NodeId id : between) {
      Node node = graph_.at(id);
      const bool is_end = id == between.back();
      node.inputs[0] = now;
      std::vector<TensorId> makes(node.outputs.size());
      node.outputs.clear();
      makes[0] = is_end ? result : rewrite_.fresh();
      now = makes[0];
      rewrite_.put(last, std::move(node), std::move(makes));
      rewrite_.remove(id);
      take(id);
    }
    if (between.empty()) rewrite_.alias(result, now);
    rewrite_.remove(last);
    take(last);
    take(first);  // it goes in the next round, when nobody reads it any more
  }

  void merge(NodeId first, NodeId last, const Ints& both) {
    Node node = graph_.at(last);
    node.inputs[0] = graph_.at(first).inputs[0];
    node.outputs.clear();
    node.attrs.set("perm", both);
    rewrite_.remove(last);
    rewrite_.put(last, std::move(node), graph_.at(last).outputs);
    take(first);
    take(last);
  }

  void fold(NodeId at) {
    Node node = graph_.at(at);
    bool is_changed = false;
    for (std::size_t i = 0; i < std::min<std::size_t>(2, node.inputs.size()); ++i) {
      const std::string flag = flag_of(node, i);
      const NodeId by = node.inputs[i] ? graph_.at(node.inputs[i]).producer : NodeId{};
      if (flag.empty() || !by || !may(by) || !are_together(by, at) || !is_transpose(by)) continue;
      if (!swaps_last_two(perm_of(graph_, graph_.at(by)))) continue;
      node.inputs[i] = graph_.at(by).inputs[0];
      node.attrs.set(flag, std::int64_t{node.attrs.integer(flag, 0) == 0});
      is_changed = true;
    }
    if (!is_changed) return;
    node.outputs.clear();
    rewrite_.remove(at);
    rewrite_.put(at, std::move(node), graph_.at(at).outputs);
    take(at);
  }

  const Graph& graph_;
  const Where& where_;
  std::vector<std::vector<NodeId>> readers_;
  Rewrite rewrite_;
  std::vector<bool> taken_;
  bool has_changed_ = false;
};

}  // namespace

Graph without_transposes(const Graph& graph, const Where& where) {
  Graph out = graph;
  Where pieces = where;
  while (auto next = Round(out, pieces).run()) {
    if (!pieces.empty()) {  // nodes only go: each that is left keeps its piece
      Where left(next->nodes.size(), -1);
      for (std::uint32_t i = 0; i < next->nodes.size(); ++i) {
        for (std::uint32_t k = 0; k < out.nodes.size(); ++k) {
          if (out.nodes[k].name == next->nodes[i].name) left[i] = pieces[k];
        }
      }
      pieces = std::move(left);
    }
    out = std::move(*next);
  }
  return out;
}

}  // namespace neap
