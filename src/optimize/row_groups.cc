#include "optimize/row_groups.h"

#include <algorithm>
#include <set>

#include "graph/op.h"
#include "optimize/row_node.h"

namespace neap {
namespace {

bool is_f32(const Graph& graph, TensorId id) { return !id || graph.at(id).type.dtype == DType::kF32; }

}  // namespace

bool is_row_product(const Graph& graph, const Node& node) {
  const std::string_view op = node.op->name;
  if (op != "linear" && op != "linear_packed" && op != "matmul") return false;
  if (!std::all_of(node.inputs.begin(), node.inputs.end(), [&](TensorId id) { return is_f32(graph, id); }))
    return false;
  if (graph.at(node.inputs[0]).type.shape.rank() < 2) return false;
  const bool is_matrix = graph.at(node.inputs[1]).type.shape.rank() == 2 && node.attrs.integer("trans_a", 0) == 0;
  return op != "matmul" || is_matrix;
}

bool is_row_elementwise(const Graph& graph, const Node& node) {
  const bool is_elementwise = node.op->elementwise || node.op->name == "batch_norm_apply";
  if (!is_elementwise || node.phase == Phase::kUpdate || node.op->side_effects()) return false;
  for (const auto& [key, value] : node.attrs) {
    if (std::holds_alternative<Shape>(value)) return false;
  }
  if (graph.at(node.outputs[0]).type.dtype != DType::kF32) return false;
  return std::all_of(node.inputs.begin(), node.inputs.end(), [&](TensorId id) {
    const DType dtype = id ? graph.at(id).type.dtype : DType::kF32;
    return dtype == DType::kF32 || dtype == DType::kBits || (node.op->random && dtype == DType::kU64);
  });
}

RowGroups::RowGroups(const Graph& graph, const Where& where)
    : graph_(graph), where_(where), readers_(readers_of(graph)), taken_(graph.nodes.size()), rewrite_(graph) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    place_.push_back(static_cast<std::int64_t>(2 * i));
    is_training_ = is_training_ || graph.nodes[i].phase != Phase::kForward;
  }
}

bool RowGroups::is_free(NodeId id) const {
  const bool is_view = at(id).op->view_offset != nullptr && at(id).op->view_offset(call_of(graph_, at(id))).has_value();
  return !taken_[id.index] && (where_.empty() || where_[id.index] >= 0) && at(id).phase != Phase::kUpdate && !is_view;
}

bool RowGroups::may_join(NodeId a, NodeId b) const {
  return is_free(a) && is_free(b) && at(a).phase == at(b).phase &&
         (where_.empty() || where_[a.index] == where_[b.index]);
}

std::optional<NodeId> RowGroups::only_reader(TensorId id) const {
  const auto& all = readers_[id.index];
  if (all.size() != 1 || is_output(graph_, id)) return std::nullopt;
  return all[0];
}

// A group stands just before an old node, at an odd place: behind groups that stand there already nothing of it may
// be read, so places of one group and another must differ.
std::optional<RowGroup> RowGroups::group(std::string_view op, std::vector<NodeId> nodes) const {
  std::sort(nodes.begin(), nodes.end());
  const std::set<NodeId> members(nodes.begin(), nodes.end());
  RowGroup out{.op = op, .nodes = nodes, .results = {}, .before = nodes.back()};
  std::int64_t before = 2 * std::int64_t{nodes.back().index} - 1;
  for (const NodeId id : nodes) {
    for (const TensorId made : at(id).outputs) {
      if (!made) continue;
      bool is_result = is_output(graph_, made);
      for (const NodeId reader : readers_[made.index]) {
        if (members.contains(reader)) continue;
        is_result = true;
        const std::int64_t place = place_[reader.index];
        before = std::min(before, place % 2 == 0 ? place - 1 : place - 2);
      }
      if (is_result) out.results.push_back(made);
    }
  }
  if (before < 0) return std::nullopt;
  out.before = {static_cast<std::uint32_t>((before + 1) / 2)};
  return can_stand(out) ? std::optional(out) : std::nullopt;
}

bool RowGroups::can_stand(const RowGroup& group) const {
  const std::int64_t before = 2 * std::int64_t{group.before.index} - 1;
  return std::all_of(group.nodes.begin(), group.nodes.end(), [&](NodeId id) {
    return std::all_of(at(id).inputs.begin(), at(id).inputs.end(), [&](TensorId in) {
      const NodeId producer = in ? graph_.at(in).producer : NodeId{};
      const bool is_member = std::find(group.nodes.begin(), group.nodes.end(), producer) != group.nodes.end();
      return !producer || is_member || place_[producer.index] < before;
    });
  });
}

bool RowGroups::put_and_make_again(const RowGroup& group, NodeId again, NodeId before) {
  auto made = row_node(graph_, group);
  if (!made) return false;
  put_in(group, std::move(*made), group.nodes);
  Node copy = at(again);
  copy.name += ".again";
  copy.phase = at(before).phase;
  std::vector<TensorId> stands_for(copy.outputs.size());
  stands_for[0] = copy.outputs[0];
  copy.outputs.clear();
  rewrite_.put(before, std::move(copy), std::move(stands_for));
  return true;
}

void RowGroups::put_in(const RowGroup& group, RowNode node, const std::vector<NodeId>& removed) {
  for (const NodeId id : removed) {
    rewrite_.remove(id);
    taken_[id.index] = true;
    place_[id.index] = 2 * std::int64_t{group.before.index} - 1;
  }
  rewrite_.put(group.before, std::move(node.node), std::move(node.stands_for));
  is_changed_ = true;
}

bool RowGroups::put(const RowGroup& group, const std::vector<NodeId>& removed) {
  auto made = row_node(graph_, group);
  if (!made) return false;
  put_in(group, std::move(*made), removed);
  return true;
}

bool RowGroups::put_both(const RowGroup& first, const std::vector<NodeId>& first_removed, const RowGroup& second,
                         const std::vector<NodeId>& second_removed) {
  if (!can_stand(first) || !can_stand(second)) return false;
  auto a = row_node(graph_, first);
  auto b = row_node(graph_, second);
  if (!a || !b) return false;
  put_in(first, std::move(*a), first_removed);
  put_in(second, std::move(*b), second_removed);
  return true;
}

std::vector<NodeId> elementwise_chain(const RowGroups& groups, NodeId first, bool alone) {
  std::vector<NodeId> chain = {first};
  while (true) {
    const TensorId made = groups.at(chain.back()).outputs[0];
    const auto& readers = groups.readers(made);
    if (readers.empty() || (alone && !groups.only_reader(made))) return chain;
    const NodeId next = *std::min_element(readers.begin(), readers.end());
    if (!groups.may_join(first, next) || !is_row_elementwise(groups.graph(), groups.at(next))) return chain;
    auto longer = chain;
    longer.push_back(next);
    if (!groups.group("", longer)) return chain;
    chain = std::move(longer);
  }
}

}  // namespace neap
