// Copies a graph node by node, with some nodes left out and others in their place.
#pragma once

#include <map>
#include <vector>

#include "graph/graph.h"

namespace neap {

// Who reads each tensor, in program order; a node that reads it twice is there twice.
std::vector<std::vector<NodeId>> readers_of(const Graph& graph);
// It is a result of the whole graph.
bool is_output(const Graph& graph, TensorId id);

// For each node of `from` the node of `to`, a rewritten form of it, that does its work: the one of that name or with
// a result of the same name, else the one that its readers became part of.
std::vector<NodeId> counterparts(const Graph& from, const Graph& to);

class Rewrite {
 public:
  explicit Rewrite(const Graph& graph) : graph_(graph), removed_(graph.nodes.size()) {}

  void remove(NodeId id) { removed_[id.index] = true; }
  bool is_removed(NodeId id) const { return removed_[id.index]; }
  // `node`, whose inputs are tensors of the old graph, runs before what stood at `before`. Its output i takes the
  // place of the old tensor stands_for[i] and its name (a default id: of none). Those put before the same node run in
  // the order of the calls.
  void put(NodeId before, Node node, std::vector<TensorId> stands_for);
  // A tensor that the old graph does not have, for a node to make and nodes behind it to read.
  TensorId fresh() { return {static_cast<std::uint32_t>(graph_.tensors.size() + fresh_++)}; }

  // Who reads `old` reads `now` instead, a tensor that is there before them; the old one's producer is removed.
  void alias(TensorId old, TensorId now) { aliases_.emplace(old.index, now); }

  // Every tensor that is still read has a producer, else InternalError.
  Graph finish() const;

 private:
  struct New {
    Node node;
    std::vector<TensorId> stands_for;
  };
  const Graph& graph_;
  std::vector<bool> removed_;
  std::size_t fresh_ = 0;
  std::map<std::uint32_t, TensorId> aliases_;
  std::multimap<std::uint32_t, New> added_;  // by the index of the node that they precede
};

}  // namespace neap
