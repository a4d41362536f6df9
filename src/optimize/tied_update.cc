#include "optimize/tied_update.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/bytes.h"
#include "graph/op.h"
#include "ops/product_math.h"
#include "ops/vocab_loss/vocab_loss.h"
#include "optimize/rewrite.h"

namespace neap {
namespace {

// Below this, the gradient is in the cache anyway.
constexpr std::int64_t kWorthwhile = kMiB;

// sum = add(... add(dense, embedding_grad(ids, dy)) ..., embedding_grad(ids, dy)); update(param, sum, ...)
struct TiedUpdate {
  NodeId update;
  TensorId dense;
  std::vector<NodeId> adds;     // from the first to the last
  std::vector<NodeId> lookups;  // what each of them adds
  bool is_loss = false;         // a tiled loss has made `dense`, which may be taken apart
};

class Finder {
 public:
  Finder(const Graph& graph, const Where& where) : graph_(graph), where_(where), readers_(readers_of(graph)) {}

  std::optional<TiedUpdate> at(NodeId update) const {
    if (!is_rule(graph_.at(update)) || !is_free(update, update)) return std::nullopt;
    TiedUpdate out{.update = update, .dense = graph_.at(update).inputs[1]};
    while (const auto add = lookup_added(out)) {
      out.adds.insert(out.adds.begin(), *add);
      out.lookups.insert(out.lookups.begin(), graph_.at(graph_.at(*add).inputs[1]).producer);
      out.dense = graph_.at(*add).inputs[0];
    }
    if (out.lookups.empty() || !is_worthwhile(out)) return std::nullopt;
    const NodeId maker = graph_.at(out.dense).producer;
    out.is_loss = graph_.at(maker).op->name == "vocab_loss" && is_free(maker, update);
    return out;
  }

 private:
  // An update whose gradient is as the batch left it: not clipped, and no sum over the parts of a batch.
  bool is_rule(const Node& node) const {
    const bool is_sgd = node.op->name == "sgd_update";
    if (!is_sgd && node.op->name != "adam_update" && node.op->name != "adamw_update") return false;
    const std::size_t clip = is_sgd ? 4 : 5;
    const bool is_clipped = clip < node.inputs.size() && node.inputs[clip];
    return !is_clipped && graph_.at(node.inputs[1]).producer && graph_.at(node.inputs[0]).type.shape.rank() == 2;
  }

  bool is_free(NodeId id, NodeId update) const {
    return where_.empty() || (where_[id.index] >= 0 && where_[id.index] == where_[update.index]);
  }

  bool is_only_for(TensorId id, NodeId reader) const {
    const auto& all = readers_[id.index];
    return all.size() == 1 && all[0] == reader && !is_output(graph_, id);
  }

  // The node that adds a lookup's gradient to the sum so far, where one does.
  std::optional<NodeId> lookup_added(const TiedUpdate& so_far) const {
    const NodeId reader = so_far.adds.empty() ? so_far.update : so_far.adds.front();
    const NodeId add = graph_.at(so_far.dense).producer;
    if (!add || graph_.at(add).op->name != "add" || !is_only_for(so_far.dense, reader)) return std::nullopt;
    const TensorId part = graph_.at(add).inputs[1];
    const NodeId lookup = graph_.at(part).producer;
    const bool is_lookup = lookup && graph_.at(lookup).op->name == "embedding_grad" && is_only_for(part, add);
    const bool is_here = is_lookup && is_free(add, so_far.update) && is_free(lookup, so_far.update);
    const bool is_same_type = graph_.at(graph_.at(add).inputs[0]).type == graph_.at(part).type;
    return is_here && is_same_type && is_given(graph_.at(lookup).inputs[0]) ? std::optional(add) : std::nullopt;
  }

  // It is there all through the step, so that an update can read it whatever is made again: data, or a view of it.
  bool is_given(TensorId id) const {
    while (const NodeId producer = graph_.at(id).producer) {
      const Node& node = graph_.at(producer);
      if (node.op->view_offset == nullptr || !node.op->view_offset(call_of(graph_, node))) return false;
      id = node.inputs[0];
    }
    return true;
  }

  // The gradient comes from elsewhere and is much more than the rows of it that are kept.
  bool is_worthwhile(const TiedUpdate& found) const {
    const Tensor& dense = graph_.at(found.dense);
    const bool is_lookup = dense.producer && graph_.at(dense.producer).op->name == "embedding_grad";
    std::int64_t picked = 0;
    for (const NodeId id : found.lookups) picked += graph_.at(graph_.at(id).inputs[1]).type.bytes();
    const bool is_sole = is_only_for(found.dense, found.adds.front());
    return dense.producer && !is_lookup && is_sole && dense.type.bytes() >= kWorthwhile &&
           2 * picked <= dense.type.bytes();
  }

  const Graph& graph_;
  const Where& where_;
  std::vector<std::vector<NodeId>> readers_;
};

// Some rows of the table's gradient, and the first of them.
struct Slice {
  TensorId gradient;
  std::int64_t first = 0;
};

// Where the gradient comes from a tiled loss whose logits are no larger than it: the logits' gradient takes its place,
// and it is made of that a few tiles at a time. Else it is there as a whole.
std::vector<Slice> slices_of(const Graph& graph, const TiedUpdate& found, Rewrite& rewrite) {
  constexpr std::int64_t kSlices = 16;
  if (!found.is_loss) return {{.gradient = found.dense}};
  const NodeId maker = graph.at(found.dense).producer;
  const Node& loss = graph.at(maker);
  const ops::VocabShape shape = ops::vocab_shape(call_of(graph, loss));
  if (!shape.fits_in_gradient()) return {{.gradient = found.dense}};
  Node delta = loss;
  delta.op = &op_named("vocab_delta");
  delta.outputs.clear();
  const TensorId logits = rewrite.fresh();
  rewrite.put(maker, std::move(delta), {loss.outputs[0], loss.outputs[1], logits, loss.outputs[3]});
  rewrite.remove(maker);
  const std::int64_t classes = shape.classes.classes;
  const std::int64_t tiles = (classes + shape.tile() - 1) / shape.tile();
  const std::int64_t step = (tiles + kSlices - 1) / kSlices * shape.tile();
  std::vector<Slice> out;
  for (std::int64_t first = 0; first < classes; first += step) {
    out.push_back({.gradient = rewrite.fresh(), .first = first});
    Node weight{.op = &op_named("vocab_weight"),
                .name = fmt::format("{}.weight{}", loss.name, out.size()),
                .layer = loss.layer,
                .inputs = {loss.inputs[0], logits},
                .attrs = {{"first", first}, {"count", std::min(step, classes - first)}},
                .phase = loss.phase};
    ops::carry_math(loss.attrs, weight.attrs);
    rewrite.put(maker, std::move(weight), {out.back().gradient});
  }
  return out;
}

// What both parts have: parameter, a gradient, state, and the numbers of the step.
Node part_of(const Node& update, std::string_view op) {
  const bool is_sgd = update.op->name == "sgd_update";
  return {.op = &op_named(op),
          .name = update.name,
          .layer = update.layer,
          .inputs = {update.inputs[0], TensorId{}, update.inputs[2], is_sgd ? TensorId{} : update.inputs[3],
                     update.inputs[is_sgd ? 3 : 4]},
          .attrs = {{"rule", std::string(update.op->name)}, {"nesterov", update.attrs.integer("nesterov", 0)}},
          .phase = update.phase};
}

// All stand where the update stood: plans put each as early as it can go.
void replace(const Graph& graph, const TiedUpdate& found, Rewrite& rewrite) {
  const Node& update = graph.at(found.update);
  Node rows = part_of(update, "rows_update");
  for (const Slice& slice : slices_of(graph, found, rewrite)) {
    Node rest = part_of(update, "rest_update");
    rest.name += fmt::format(".rest{}", slice.first);
    rest.inputs[1] = slice.gradient;
    rest.inputs.push_back(rows.inputs[1]);  // what was kept so far
    rest.attrs.set("first", slice.first);
    for (const NodeId id : found.lookups) rest.inputs.push_back(graph.at(id).inputs[0]);
    rows.inputs[1] = rewrite.fresh();
    rewrite.put(found.update, std::move(rest), {rows.inputs[1]});
  }
  for (const NodeId id : found.lookups) {
    const Node& lookup = graph.at(id);
    rows.inputs.insert(rows.inputs.end(), {lookup.inputs[0], lookup.inputs[1]});
    rewrite.remove(id);
  }
  for (const NodeId id : found.adds) rewrite.remove(id);
  rewrite.remove(found.update);
  rewrite.put(found.update, std::move(rows), {});
}

}  // namespace

Graph split_tied_updates(const Graph& graph, const Where& where) {
  const Finder finder(graph, where);
  Rewrite rewrite(graph);
  bool found = false;
  for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
    if (const auto tied = finder.at({i})) {
      replace(graph, *tied, rewrite);
      found = true;
    }
  }
  return found ? rewrite.finish() : graph;
}

}  // namespace neap
