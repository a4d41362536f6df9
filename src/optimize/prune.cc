#include "optimize/prune.h"

#include <fmt/format.h>

#include <charconv>

#include "autodiff/optimizer.h"
#include "graph/op.h"
#include "neap/error.h"
#include "optimize/once.h"
#include "optimize/rewrite.h"
#include "optimize/weighted.h"

namespace neap {
namespace {

template <class T>
std::optional<T> number(std::string_view text) {
  T out{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return out;
}

Attrs attrs_of(const Pruning& p, int axis) {
  Attrs out{{"axis", std::int64_t{axis}}};
  if (p.of > 0) {
    out.set("keep", p.keep);
    out.set("of", p.of);
  } else {
    out.set("share", p.share);
  }
  return out;
}

// The weight of a layer, product or convolution, and the axis of its inputs; axis 0 where there is none.
std::pair<TensorId, int> weight_of(const Graph& graph, const Node& node) {
  if (const auto product = weighted_product(graph, node)) return {product->weight, product->transposed ? -2 : -1};
  if (node.op->name == "conv") return {node.inputs[1], -1};
  return {};
}

}  // namespace

std::optional<Pruning> parse_pruning(std::string_view text) {
  if (text.empty()) return std::nullopt;
  const auto wrong = [&](std::string_view why) {
    return UserError(
        fmt::format("--prune '{}': {}; take KEEP:OF as in 2:4, or the share to prune as in 0.9, and "
                    ",from=STEP where wanted",
                    text, why));
  };
  Pruning out;
  const std::size_t comma = text.find(',');
  const std::string_view what = text.substr(0, comma);
  if (comma != std::string_view::npos) {
    const std::string_view rest = text.substr(comma + 1);
    const auto from = rest.starts_with("from=") ? number<std::int64_t>(rest.substr(5)) : std::nullopt;
    if (!from || *from < 1) throw wrong("what follows the comma is no from=STEP with a step from 1 up");
    out.from = *from;
  }
  const std::size_t colon = what.find(':');
  if (colon == std::string_view::npos) {
    const auto share = number<double>(what);
    if (!share || !(*share > 0 && *share < 1)) throw wrong("a share lies between 0 and 1");
    out.share = *share;
    return out;
  }
  const auto keep = number<std::int64_t>(what.substr(0, colon));
  const auto of = number<std::int64_t>(what.substr(colon + 1));
  if (!keep || !of || *keep < 1 || *keep >= *of || *of > 64) throw wrong("fewer are kept than there are, at most 64");
  out.keep = *keep;
  out.of = *of;
  return out;
}

std::map<TensorId, int> pruned_weights(const Graph& forward, const Pruning& pruning) {
  std::map<TensorId, int> out;
  for (const Node& node : forward.nodes) {
    const auto [id, axis] = weight_of(forward, node);
    if (!id) continue;
    const Tensor& t = forward.at(id);
    const bool fits = pruning.of == 0 || t.type.shape.size(axis) % pruning.of == 0;
    if (t.role == Role::kParameter && t.trainable && t.type.dtype == DType::kF32 && fits) out.emplace(id, axis);
  }
  return out;
}

void append_pruning(Builder& g, const std::map<TensorId, int>& weights, const Pruning& pruning, std::int64_t parts) {
  const TensorId hyper = *g.graph().find(kHyperInput);
  const TensorId key = g.random_key();
  for (const auto& [weight, axis] : weights) {
    const std::string name = g.name_of(weight);
    const std::int64_t bytes = (g.type(weight).elements() + 7) / 8;
    const TensorId mask =
        g.graph().add({.name = name + ".mask", .type = {DType::kU8, {bytes}}, .role = Role::kOptimizer});
    Attrs attrs = attrs_of(pruning, axis);
    attrs.set("from", pruning.from * parts);  // runs are counted part by part
    g.add("prune_update", {weight, mask, key, hyper}, attrs, name + ".prune");
    g.graph().nodes.back().phase = Phase::kUpdate;
    g.graph().nodes.back().layer = "optimizer";
  }
}

Graph with_pruned_weights(const Graph& graph, const Pruning& pruning) {
  const auto weights = pruned_weights(graph, pruning);
  if (weights.empty()) return graph;
  Rewrite rewrite(graph);
  std::map<TensorId, TensorId> now;
  for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
    Node node = graph.nodes[i];
    bool is_changed = false;
    for (TensorId& id : node.inputs) {
      const auto weight = weights.find(id);
      if (!id || weight == weights.end()) continue;
      auto [made, is_new] = now.try_emplace(id);
      if (is_new) {
        made->second = rewrite.fresh();
        Attrs attrs = attrs_of(pruning, weight->second);
        attrs.set(std::string(kOnce), std::int64_t{1});
        rewrite.put({i},
                    {.op = &op_named("prune"),
                     .name = graph.at(id).name + ".pruned",
                     .layer = node.layer,
                     .inputs = {id},
                     .attrs = attrs},
                    {made->second});
      }
      id = made->second;
      is_changed = true;
    }
    if (!is_changed) continue;
    rewrite.remove({i});
    std::vector<TensorId> outputs = node.outputs;
    node.outputs.clear();
    rewrite.put({i}, std::move(node), std::move(outputs));
  }
  return rewrite.finish();
}

}  // namespace neap
