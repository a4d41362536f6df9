// Questions that pattern passes ask of a graph.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/op.h"

namespace neap::onnx {

class Match {
 public:
  explicit Match(const Graph& graph);

  const Graph& graph() const { return graph_; }
  // The node that makes a tensor when its op has this name, else null.
  const Node* from(TensorId id, std::string_view op) const;
  // The node that makes a tensor; null for leaves.
  const Node* producer(TensorId id) const;
  int readers(TensorId id) const { return readers_[id.index]; }
  // A constant whose elements are all one number.
  std::optional<double> number(TensorId id) const;
  // Through reshapes, casts to the same type and the like down to what holds the values; `id` itself when there is
  // none.
  TensorId without_views(TensorId id) const;
  const Shape& shape(TensorId id) const { return graph_.at(id).type.shape; }
  // Is the tensor a parameter, constant or the like, that needs no node?
  bool is_leaf(TensorId id) const { return producer(id) == nullptr; }

  // For a node of two inputs, in either order: the input that is a number, and the other.
  struct WithNumber {
    TensorId x;
    double number = 0;
  };
  std::optional<WithNumber> with_number(const Node* node) const;

 private:
  const Graph& graph_;
  std::vector<const Node*> makers_;
  std::vector<int> readers_;
};

// What a pass puts in a node's place: nodes that may read any tensor made before it; the last one's outputs take the
// place of the replaced node's, output by output. An identity stands for the tensor that it reads. Where the types come
// out otherwise (a number of the pattern was a tensor that broadcasts, say) the node stays as it is.
struct Replacement {
  std::vector<Node> nodes;                                   // op, inputs, attrs; inputs may name `made` tensors
  std::vector<std::pair<std::size_t, std::size_t>> outputs;  // of the replaced node's output i: (node, output)
};

// Goes through the nodes in order and asks `rule` for each; default-constructed replacement: keep it.
// Inputs of replacement nodes with index >= kMade stand for outputs of earlier replacement nodes: see made().
inline constexpr std::uint32_t kMade = 0x8000'0000U;
TensorId made(std::size_t node, std::size_t output = 0);

template <class Rule>
Graph rewrite(const Graph& graph, Rule rule);
Graph rewrite_with(const Graph& graph, const std::vector<std::optional<Replacement>>& replacements);

template <class Rule>
Graph rewrite(const Graph& graph, Rule rule) {
  const Match match(graph);
  std::vector<std::optional<Replacement>> replacements(graph.nodes.size());
  bool any = false;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    replacements[i] = rule(match, graph.nodes[i]);
    any = any || replacements[i];
  }
  return any ? rewrite_with(graph, replacements) : graph;
}

}  // namespace neap::onnx
