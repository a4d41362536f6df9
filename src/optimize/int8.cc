#include "optimize/int8.h"

#include <map>

#include "graph/op.h"
#include "ops/int8/int8.h"
#include "optimize/once.h"
#include "optimize/rewrite.h"
#include "optimize/weighted.h"

namespace neap {
namespace {

class Quantizer {
 public:
  Quantizer(const Graph& graph, const Where& where) : graph_(graph), where_(where), rewrite_(graph) {}

  Graph run() {
    for (std::uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      const bool may = where_.empty() || where_[i] >= 0;
      if (may && (replace_product({i}) || replace_conv({i}))) rewrite_.remove({i});
    }
    return packed_.empty() ? graph_ : rewrite_.finish();
  }

 private:
  // packed, scale and sums of a weight; a weight that several nodes read is packed once.
  const std::vector<TensorId>& packed(NodeId before, TensorId weight, bool transposed) {
    auto [it, is_new] = packed_.try_emplace({weight.index, transposed});
    if (!is_new) return it->second;
    it->second = {rewrite_.fresh(), rewrite_.fresh(), rewrite_.fresh()};
    Node node{.op = &op_named("pack_int8"),
              .name = graph_.at(weight).name + (transposed ? ".int8t" : ".int8"),
              .layer = graph_.at(before).layer,
              .inputs = {weight},
              .attrs = {{std::string(kOnce), std::int64_t{1}}}};
    if (transposed) node.attrs.set("transposed", std::int64_t{1});
    rewrite_.put(before, std::move(node), it->second);
    return it->second;
  }

  void put(NodeId at, const char* op, const std::vector<TensorId>& weight, TensorId x, TensorId bias, Attrs attrs) {
    const Node& old = graph_.at(at);
    Node node{.op = &op_named(op),
              .name = old.name,
              .layer = old.layer,
              .inputs = {x, weight[0], weight[1], weight[2]},
              .attrs = std::move(attrs),
              .phase = old.phase};
    if (bias) node.inputs.push_back(bias);
    rewrite_.put(at, std::move(node), old.outputs);
  }

  bool replace_product(NodeId at) {
    const auto product = weighted_product(graph_, graph_.at(at));
    if (!product || !ops::is_int8_weight({product->out, product->in}, 1)) return false;
    const auto& weight = packed(at, product->weight, product->transposed);
    put(at, "linear_int8", weight, product->x, product->bias, {{"in", product->in}, {"out", product->out}});
    return true;
  }

  bool replace_conv(NodeId at) {
    const Node& node = graph_.at(at);
    if (node.op->name != "conv") return false;
    const Tensor& w = graph_.at(node.inputs[1]);
    if (!is_weight(graph_, node.inputs[1])) return false;
    if (!ops::is_int8_weight(w.type.shape, node.attrs.integer("groups", 1))) return false;
    Attrs attrs = node.attrs;
    attrs.set("kernel", ops::kernel_of(w.type.shape));
    attrs.set("out", w.type.shape.size(0));
    const auto& weight = packed(at, node.inputs[1], false);
    put(at, "conv_int8", weight, node.inputs[0], node.inputs.size() > 2 ? node.inputs[2] : TensorId{}, attrs);
    return true;
  }

  const Graph& graph_;
  const Where& where_;
  Rewrite rewrite_;
  std::map<std::pair<std::uint32_t, bool>, std::vector<TensorId>> packed_;
};

}  // namespace

Graph with_int8_products(const Graph& graph, const Where& where) {
  return is_inference(graph) ? Quantizer(graph, where).run() : graph;
}

}  // namespace neap
