#include "optimize/sparse.h"

#include <map>

#include "graph/op.h"
#include "ops/prune/prune.h"
#include "optimize/once.h"
#include "optimize/rewrite.h"
#include "optimize/weighted.h"

namespace neap {
namespace {

constexpr std::int64_t kGroup = 8;  // inputs of a group of ops/sparse
// A pattern is worth it up to half of the weights, a share without one from this on: measured (bench/LIBRARY.md). The
// choice looks at the weight alone: batches of all sizes find it packed in one way.
constexpr double kLeastShare = 0.8;

struct Packing {
  const char* pack;
  const char* op;
  std::string attr;  // of both: kept, or count
  std::int64_t value;
  std::size_t tensors;
};

class Sparser {
 public:
  Sparser(const Graph& graph, const Where& where) : graph_(graph), where_(where), rewrite_(graph) {}

  Graph run() {
    for (std::uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      if (where_.empty() || where_[i] >= 0) replace({i});
    }
    return packed_.empty() ? graph_ : rewrite_.finish();
  }

 private:
  // How a layer with this weight skips zeros; none: it does not.
  std::optional<Packing> packing(const WeightedProduct& product) const {
    const NodeId by = graph_.at(product.weight).producer;
    if (!by || graph_.at(by).op->name != "prune") return std::nullopt;
    const auto rule = ops::PruneRule::from(graph_.at(by).attrs);
    if (rule.of == 0) {
      if (rule.share < kLeastShare || product.in > (1 << 16)) return std::nullopt;
      const std::int64_t count = ops::kept_by_share(rule.share, product.in * product.out);
      return Packing{"pack_listed", "linear_listed", "count", count, 3};
    }
    const bool fits = kGroup % rule.of == 0 && product.in % kGroup == 0 && 2 * rule.keep <= rule.of;
    if (!fits) return std::nullopt;
    return Packing{"pack_sparse", "linear_sparse", "kept", rule.keep * (kGroup / rule.of), 2};
  }

  const std::vector<TensorId>& packed(NodeId before, const WeightedProduct& product, const Packing& how) {
    auto [it, is_new] = packed_.try_emplace({product.weight.index, product.transposed});
    if (!is_new) return it->second;
    for (std::size_t i = 0; i < how.tensors; ++i) it->second.push_back(rewrite_.fresh());
    Node node{.op = &op_named(how.pack),
              .name = graph_.at(product.weight).name + ".packed",
              .layer = graph_.at(before).layer,
              .inputs = {product.weight},
              .attrs = {{std::string(kOnce), std::int64_t{1}}, {how.attr, how.value}}};
    if (product.transposed) node.attrs.set("transposed", std::int64_t{1});
    rewrite_.put(before, std::move(node), it->second);
    return it->second;
  }

  void replace(NodeId at) {
    const Node& old = graph_.at(at);
    const auto product = weighted_product(graph_, old);
    const auto how = product ? packing(*product) : std::nullopt;
    if (!how) return;
    Node node{.op = &op_named(how->op),
              .name = old.name,
              .layer = old.layer,
              .inputs = {product->x},
              .attrs = {{"in", product->in}, {"out", product->out}},
              .phase = old.phase};
    if (how->attr == "kept") node.attrs.set(how->attr, how->value);
    for (const TensorId id : packed(at, *product, *how)) node.inputs.push_back(id);
    if (product->bias) node.inputs.push_back(product->bias);
    rewrite_.remove(at);
    rewrite_.put(at, std::move(node), old.outputs);
  }

  const Graph& graph_;
  const Where& where_;
  Rewrite rewrite_;
  std::map<std::pair<std::uint32_t, bool>, std::vector<TensorId>> packed_;
};

}  // namespace

Graph with_sparse_layers(const Graph& graph, const Where& where) {
  return is_inference(graph) ? Sparser(graph, where).run() : graph;
}

}  // namespace neap
