#include "optimize/vocab_loss.h"

#include <algorithm>
#include <optional>

#include "core/bytes.h"
#include "graph/op.h"
#include "ops/product_math.h"
#include "optimize/rewrite.h"

namespace neap {
namespace {

// Below this, whole logits are in the cache anyway.
constexpr std::int64_t kWorthwhile = 16 * kMiB;

// The nodes of one loss:
//   logits = linear(x, w, bias);  loss, lse = cross_entropy(logits, targets);  one = ones_like(loss)
//   d = cross_entropy_grad(one, logits, targets, lse);  dw, db = linear_grad_weight(x, d);  dx = matmul(d, w)
struct Loss {
  NodeId linear, entropy, one, gradient, weight, input;
};

class Finder {
 public:
  explicit Finder(const Graph& graph) : graph_(graph), readers_(readers_of(graph)) {}

  std::optional<Loss> at(NodeId entropy) const {
    const Node& node = graph_.at(entropy);
    if (!is(entropy, "cross_entropy") || node.attrs.real("label_smoothing", 0) != 0) return std::nullopt;
    Loss out{.entropy = entropy};
    out.linear = graph_.at(node.inputs[0]).producer;
    if (!is(out.linear, "linear") || graph_.at(out.linear).attrs.integer("transposed", 0) != 0) return std::nullopt;
    if (graph_.at(node.inputs[0]).type.bytes() < kWorthwhile || is_output(graph_, node.inputs[0])) return std::nullopt;
    const auto one = only_reader(node.outputs[0], "ones_like");
    const auto gradient = only_reader(node.outputs[1], "cross_entropy_grad");
    if (!one || !gradient || graph_.at(*gradient).inputs[0] != graph_.at(*one).outputs[0]) return std::nullopt;
    if (readers_[node.inputs[0].index].size() != 2 || readers_[graph_.at(*one).outputs[0].index].size() != 1) {
      return std::nullopt;  // somebody else wants the logits
    }
    out.one = *one;
    out.gradient = *gradient;
    return with_products(out);
  }

 private:
  bool is(NodeId id, std::string_view op) const { return id && graph_.at(id).op->name == op; }

  std::optional<NodeId> only_reader(TensorId id, std::string_view op) const {
    const auto& all = readers_[id.index];
    return all.size() == 1 && is(all[0], op) ? std::optional(all[0]) : std::nullopt;
  }

  std::optional<Loss> with_products(Loss out) const {
    const Node& linear = graph_.at(out.linear);
    const TensorId d = graph_.at(out.gradient).outputs[0];
    if (readers_[d.index].size() != 2) return std::nullopt;
    for (const NodeId id : readers_[d.index]) {
      const Node& node = graph_.at(id);
      const bool is_weight = is(id, "linear_grad_weight") && node.inputs[0] == linear.inputs[0] && node.inputs[1] == d;
      const bool is_input = is(id, "matmul") && node.inputs[0] == d && node.inputs[1] == linear.inputs[1];
      if (is_weight) out.weight = id;
      if (is_input) out.input = id;
    }
    if (!out.weight || !out.input) return std::nullopt;
    return out;
  }

  const Graph& graph_;
  std::vector<std::vector<NodeId>> readers_;
};

// The call stands at the beginning of backward: nothing makes its results again.
void replace(const Graph& graph, const Loss& loss, Rewrite& rewrite) {
  const Node& linear = graph.at(loss.linear);
  const Node& entropy = graph.at(loss.entropy);
  const Node& weight = graph.at(loss.weight);
  const TensorId bias = linear.inputs.size() > 2 ? linear.inputs[2] : TensorId{};
  Node node{.op = &op_named("vocab_loss"),
            .name = linear.name + ".tiled",
            .layer = linear.layer,
            .inputs = {linear.inputs[0], linear.inputs[1], bias, entropy.inputs[1]},
            .attrs = entropy.attrs,
            .phase = Phase::kBackward};
  ops::carry_math(linear.attrs, node.attrs);
  rewrite.put(loss.gradient, std::move(node),
              {entropy.outputs[0], graph.at(loss.input).outputs[0], weight.outputs[0], weight.outputs[1]});
  for (const NodeId id : {loss.linear, loss.entropy, loss.one, loss.gradient, loss.weight, loss.input}) {
    rewrite.remove(id);
  }
}

}  // namespace

Graph tile_vocab_loss(const Graph& graph, const Where& where) {
  const Finder finder(graph);
  Rewrite rewrite(graph);
  bool found = false;
  for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
    if (!where.empty() && where[i] < 0) continue;
    if (const auto loss = finder.at({i})) {
      replace(graph, *loss, rewrite);
      found = true;
    }
  }
  return found ? rewrite.finish() : graph;
}

}  // namespace neap
