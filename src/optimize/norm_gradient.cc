#include "optimize/norm_gradient.h"

#include <algorithm>

#include "graph/op.h"
#include "optimize/rewrite.h"

namespace neap {
namespace {

class NormGradients {
 public:
  NormGradients(const Graph& graph, const Where& where)
      : graph_(graph), where_(where), readers_(readers_of(graph)), rewrite_(graph) {}

  Graph run() {
    bool found = false;
    for (std::uint32_t i = 0; i < graph_.nodes.size(); ++i) found = join({i}) || found;
    return found ? rewrite_.finish() : graph_;
  }

 private:
  bool is_free(NodeId id) const { return where_.empty() || where_[id.index] >= 0; }

  // a + b and b + a are the same to the bit.
  bool join(NodeId norm) {
    const Node& gradient = graph_.at(norm);
    if (gradient.op->name != "layer_norm_grad" || !is_free(norm)) return false;
    const TensorId dx = gradient.outputs[0];
    if (readers_[dx.index].size() != 1 || is_output(graph_, dx)) return false;
    const NodeId add = readers_[dx.index][0];
    const Node& sum = graph_.at(add);
    const bool is_other_piece = !where_.empty() && where_[add.index] != where_[norm.index];
    if (sum.op->name != "add" || sum.phase != gradient.phase || rewrite_.is_removed(add) || is_other_piece)
      return false;
    const TensorId other = sum.inputs[0] == dx ? sum.inputs[1] : sum.inputs[0];
    if (!(graph_.at(other).type == graph_.at(dx).type) || is_read_before(gradient, add)) return false;
    Node node = gradient;
    node.op = &op_named(kNormGradient.makes);
    node.inputs.resize(5);
    node.inputs.push_back(other);
    node.outputs.clear();
    rewrite_.remove(norm);
    rewrite_.remove(add);
    rewrite_.put(add, std::move(node), {sum.outputs[0], gradient.outputs[1], gradient.outputs[2]});
    return true;
  }

  // The gradients of scale and bias come later now.
  bool is_read_before(const Node& gradient, NodeId add) const {
    return std::any_of(gradient.outputs.begin() + 1, gradient.outputs.end(), [&](TensorId id) {
      return id && std::any_of(readers_[id.index].begin(), readers_[id.index].end(),
                               [&](NodeId reader) { return reader < add; });
    });
  }

  const Graph& graph_;
  const Where& where_;
  std::vector<std::vector<NodeId>> readers_;
  Rewrite rewrite_;
};

}  // namespace

Graph with_norm_gradient(const Graph& graph, const Where& where) { return NormGradients(graph, where).run(); }

}  // namespace neap
