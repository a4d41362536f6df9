#include "optimize/layout.h"

#include <algorithm>
#include <map>

#include "device/cpu/isa.h"
#include "graph/op.h"
#include "ops/packed/packed.h"
#include "optimize/once.h"
#include "optimize/rewrite.h"
#include "optimize/transposes.h"
#include "optimize/weighted.h"

namespace neap {
namespace {

// Padding may take so much more. Below a few rows of outputs there is nothing to gain either.
constexpr double kMostPadding = 1.125;

bool is_worth_packing(const WeightedProduct& product) {
  const ops::PackedLayer s{.in = product.in, .out = product.out};
  const auto packed = static_cast<double>(s.panels() * s.depth() * ops::PackedLayer::kPanel);
  return packed <= kMostPadding * static_cast<double>(s.in * s.out);
}

class Packer {
 public:
  Packer(const Graph& graph, const Where& where) : graph_(graph), where_(where), rewrite_(graph) {}

  Graph run() {
    for (std::uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      if (where_.empty() || where_[i] >= 0) replace({i});
    }
    return packed_.empty() ? graph_ : rewrite_.finish();
  }

 private:
  TensorId packed(NodeId before, const WeightedProduct& product) {
    auto [it, is_new] = packed_.try_emplace({product.weight.index, product.transposed});
    if (!is_new) return it->second;
    it->second = rewrite_.fresh();
    Node node{.op = &op_named("pack_linear"),
              .name = graph_.at(product.weight).name + (product.transposed ? ".panelst" : ".panels"),
              .layer = graph_.at(before).layer,
              .inputs = {product.weight},
              .attrs = {{std::string(kOnce), std::int64_t{1}}}};
    if (product.transposed) node.attrs.set("transposed", std::int64_t{1});
    rewrite_.put(before, std::move(node), {it->second});
    return it->second;
  }

  // A weight that others read as it is would lie there twice.
  bool is_packed_for_all(const WeightedProduct& product) const {
    return std::all_of(readers_[product.weight.index].begin(), readers_[product.weight.index].end(), [&](NodeId id) {
      const auto other = weighted_product(graph_, graph_.at(id));
      return other && other->weight == product.weight && other->x != product.weight &&
             other->transposed == product.transposed;
    });
  }

  void replace(NodeId at) {
    const Node& old = graph_.at(at);
    const auto product = weighted_product(graph_, old);
    if (!product || !is_worth_packing(*product) || !is_packed_for_all(*product)) return;
    Node node{.op = &op_named("linear_packed"),
              .name = old.name,
              .layer = old.layer,
              .inputs = {product->x, packed(at, *product)},
              .attrs = {{"in", product->in}, {"out", product->out}},
              .phase = old.phase};
    if (product->bias) node.inputs.push_back(product->bias);
    rewrite_.remove(at);
    rewrite_.put(at, std::move(node), old.outputs);
  }

  const Graph& graph_;
  const Where& where_;
  std::vector<std::vector<NodeId>> readers_ = readers_of(graph_);
  Rewrite rewrite_;
  std::map<std::pair<std::uint32_t, bool>, TensorId> packed_;
};

// Transposes of weights that are left.
Graph with_hoisted_transposes(Graph graph) {
  for (Node& node : graph.nodes) {
    if (node.op->name == "transpose" && is_weight(graph, node.inputs[0])) {
      node.attrs.set(std::string(kOnce), std::int64_t{1});
    }
  }
  return graph;
}

}  // namespace

Graph with_layout(const Graph& graph, const Where& where) {
  const Graph plain = without_transposes(graph, where);
  if (!is_inference(graph) || !where.empty()) return plain;
  const Graph hoisted = with_hoisted_transposes(plain);
  // Elsewhere the library's product of a packed weight is another one, with other bits.
  return isa() == Isa::kV4 ? Packer(hoisted, where).run() : hoisted;
}

}  // namespace neap
