// What passes share that make groups of ops that work row by row (ops/tiled/rows.h): which nodes can be part of one,
// where it can stand, and the node itself.
#pragma once

#include <optional>
#include <vector>

#include "optimize/optimization.h"
#include "optimize/rewrite.h"

namespace neap {

struct RowGroup {
  std::string_view op;            // of the node that is made
  std::vector<NodeId> nodes;      // in program order
  std::vector<TensorId> results;  // of theirs
  NodeId before;                  // where it stands
};

// linear, matmul with a matrix, linear_packed.
bool is_row_product(const Graph& graph, const Node& node);
// Reads and writes elements, and shapes do not matter to it; batch norm with statistics that are known is one, too.
bool is_row_elementwise(const Graph& graph, const Node& node);

// The node that a group becomes.
struct RowNode {
  Node node;
  std::vector<TensorId> stands_for;  // its results
};

class RowGroups {
 public:
  RowGroups(const Graph& graph, const Where& where);

  const Graph& graph() const { return graph_; }
  const Node& at(NodeId id) const { return graph_.at(id); }
  const std::vector<NodeId>& readers(TensorId id) const { return readers_[id.index]; }
  // Not part of a group yet, and the pass may work there.
  bool is_free(NodeId id) const;
  // Both are free, of one phase and of one piece.
  bool may_join(NodeId a, NodeId b) const;
  // The node that reads `id`, if it is the only one and no one outside does.
  std::optional<NodeId> only_reader(TensorId id) const;
  bool is_training() const { return is_training_; }

  // The group of these nodes with all results that others read; nothing when it would have to stand both before
  // and behind something.
  std::optional<RowGroup> group(std::string_view op, std::vector<NodeId> nodes) const;

  // Puts the group in and `removed` out. False, and nothing is changed, where its nodes do not go by the same rows,
  // would run in one chunk, or do not keep their bits in chunks.
  bool put(const RowGroup& group, const std::vector<NodeId>& removed);
  bool put(const RowGroup& group) { return put(group, group.nodes); }
  // And makes the first output of its node `again`, which is no result of the group, once more before `before`.
  bool put_and_make_again(const RowGroup& group, NodeId again, NodeId before);
  // Both or neither.
  bool put_both(const RowGroup& first, const std::vector<NodeId>& first_removed, const RowGroup& second,
                const std::vector<NodeId>& second_removed);

  // Whether anything was put in, and the graph then.
  bool is_changed() const { return is_changed_; }
  Graph finish() const { return rewrite_.finish(); }

 private:
  // Everything that it reads is made before its place.
  bool can_stand(const RowGroup& group) const;
  void put_in(const RowGroup& group, RowNode node, const std::vector<NodeId>& removed);

  const Graph& graph_;
  const Where& where_;
  std::vector<std::vector<NodeId>> readers_;
  std::vector<bool> taken_;
  std::vector<std::int64_t> place_;  // where each node's work is done, in twice its old index
  bool is_training_ = false;
  bool is_changed_ = false;
  Rewrite rewrite_;
};

// The nodes that follow one after the other from `first` on: each an elementwise op that reads what the one before
// made, first among all readers. With `alone` nobody else reads what lies between.
std::vector<NodeId> elementwise_chain(const RowGroups& groups, NodeId first, bool alone);

}  // namespace neap
