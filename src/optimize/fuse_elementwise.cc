#include "optimize/fuse_elementwise.h"

#include <algorithm>
#include <optional>
#include <set>

#include "core/bytes.h"
#include "graph/op.h"
#include "ops/tiled/tiled.h"
#include "optimize/rewrite.h"

namespace neap {
namespace {

// Smaller tensors are in the cache from one op to the next anyway.
constexpr std::int64_t kWorthwhile = 512 * kKiB;
// A chunk has at least one row; it must not be larger than the cache.
constexpr std::int64_t kMostRowBytes = 256 * kKiB;
constexpr std::size_t kMostInputs = 8;

class Fusion {
 public:
  Fusion(const Graph& graph, const Where& where)
      : graph_(graph), where_(where), readers_(readers_of(graph)), taken_(graph.nodes.size()), rewrite_(graph) {}

  // From the last node on: a chain is found from its end.
  bool run() {
    bool found = false;
    for (auto i = static_cast<std::uint32_t>(graph_.nodes.size()); i-- > 0;) {
      if (taken_[i] || !is_candidate({i})) continue;
      std::set<std::uint32_t> group = group_ending_at({i});
      const auto axes = group.size() > 1 ? row_axes(group) : std::nullopt;
      if (!axes) continue;
      replace(group, *axes);
      found = true;
    }
    return found;
  }
  Graph finish() const { return rewrite_.finish(); }

 private:
  bool is_candidate(NodeId id) const {
    if (!where_.empty() && where_[id.index] < 0) return false;
    const Node& node = graph_.at(id);
    if (!node.op->elementwise || node.phase == Phase::kUpdate || node.op->side_effects()) return false;
    for (const auto& [key, value] : node.attrs) {
      if (std::holds_alternative<Shape>(value)) return false;  // a chunk has another
    }
    const TensorType& type = graph_.at(node.outputs[0]).type;
    if (type.dtype != DType::kF32 || type.bytes() < kWorthwhile) return false;
    for (std::size_t i = 1; i < node.outputs.size(); ++i) {
      if (is_wanted(node.outputs[i]) || ((node.op->optional_outputs >> i) & 1U) == 0) return false;
    }
    return std::all_of(node.inputs.begin(), node.inputs.end(), [&](TensorId in) {
      const DType dtype = in ? graph_.at(in).type.dtype : DType::kF32;
      return dtype == DType::kF32 || (node.op->random && dtype == DType::kU64);
    });
  }

  bool is_wanted(TensorId id) const { return !readers_[id.index].empty() || is_output(graph_, id); }

  // The kernel may write over any operand of the result's size: a fused node lets plans do so.
  bool may_end(const Node& node) const {
    const std::int64_t bytes = graph_.at(node.outputs[0]).type.bytes();
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.inputs[i] || graph_.at(node.inputs[i]).type.bytes() != bytes) continue;
      const bool is_covered = std::any_of(node.op->in_place.begin(), node.op->in_place.end(),
                                          [&](const InOut& pair) { return pair.input == i && pair.output == 0; });
      if (!is_covered) return false;
    }
    return true;
  }

  // Nodes whose results only the group reads and that stand together: so nothing lives longer than before.
  std::set<std::uint32_t> group_ending_at(NodeId end) const {
    std::set<std::uint32_t> group = {end.index};
    if (!may_end(graph_.at(end))) return group;
    const TensorType& type = graph_.at(graph_.at(end).outputs[0]).type;
    for (std::uint32_t i = end.index; i-- > 0;) {
      const Node& node = graph_.nodes[i];
      if (node.op->view_offset != nullptr && node.op->view_offset(call_of(graph_, node))) break;
      const TensorId result = node.outputs[0];
      const bool is_inside = !readers_[result.index].empty() && !is_output(graph_, result) &&
                             std::all_of(readers_[result.index].begin(), readers_[result.index].end(),
                                         [&](NodeId reader) { return group.contains(reader.index); });
      const bool is_other_piece = !where_.empty() && where_[i] != where_[end.index];
      if (taken_[i] || is_other_piece || !is_inside || !is_candidate({i}) || node.phase != graph_.at(end).phase ||
          !(graph_.at(result).type == type)) {
        break;
      }
      group.insert(i);
      if (inputs_of(group).size() > kMostInputs) {
        group.erase(i);
        break;
      }
    }
    return group;
  }

  std::vector<TensorId> inputs_of(const std::set<std::uint32_t>& group) const {
    std::vector<TensorId> out;
    for (const std::uint32_t i : group) {
      for (const TensorId id : graph_.nodes[i].inputs) {
        const bool is_made_here = id && graph_.at(id).producer && group.contains(graph_.at(id).producer.index);
        if (id && !is_made_here && std::find(out.begin(), out.end(), id) == out.end()) out.push_back(id);
      }
    }
    // What a plan may overwrite stands in front: the operands of the result's size.
    const std::int64_t bytes = graph_.at(graph_.nodes[*group.rbegin()].outputs[0]).type.bytes();
    std::stable_partition(out.begin(), out.end(), [&](TensorId id) { return graph_.at(id).type.bytes() == bytes; });
    return out;
  }

  // The most axes over which every operand either goes along with the rows or is the same for all of them.
  std::optional<int> row_axes(const std::set<std::uint32_t>& group) const {
    const Shape& result = graph_.at(graph_.nodes[*group.rbegin()].outputs[0]).type.shape;
    const auto inputs = inputs_of(group);
    for (int axes = result.rank(); axes > 0; --axes) {
      std::int64_t row = 4;
      for (int i = axes; i < result.rank(); ++i) row *= result.size(i);
      const bool fits = std::all_of(inputs.begin(), inputs.end(), [&](TensorId id) {
        const TensorType& type = graph_.at(id).type;
        return type.dtype == DType::kU64 || row_kind(type.shape, result, axes) != RowKind::kNeither;
      });
      if (fits) return row <= kMostRowBytes ? std::optional(axes) : std::nullopt;
    }
    return std::nullopt;
  }

  void replace(const std::set<std::uint32_t>& group, int axes) {
    const std::vector<TensorId> inputs = inputs_of(group);
    std::map<TensorId, int> number;
    for (std::size_t i = 0; i < inputs.size(); ++i) number[inputs[i]] = static_cast<int>(i);
    TiledProgram program{.axes = axes};
    for (const std::uint32_t i : group) {
      const Node& node = graph_.nodes[i];
      TiledStep step{.op = node.op, .attrs = node.attrs};
      for (const TensorId id : node.inputs) step.inputs.push_back(id ? number.at(id) : -1);
      number[node.outputs[0]] = static_cast<int>(inputs.size() + program.steps.size());
      program.steps.push_back(std::move(step));
      rewrite_.remove({i});
      taken_[i] = true;
    }
    const NodeId end{*group.rbegin()};
    const Node& last = graph_.at(end);
    rewrite_.put(end,
                 {.op = &op_named("fused"),
                  .name = last.name,
                  .layer = last.layer,
                  .inputs = inputs,
                  .attrs = to_attrs(program),
                  .phase = last.phase},
                 {last.outputs[0]});
  }

  const Graph& graph_;
  const Where& where_;
  std::vector<std::vector<NodeId>> readers_;
  std::vector<bool> taken_;
  Rewrite rewrite_;
};

}  // namespace

Graph fuse_elementwise(const Graph& graph, const Where& where) {
  Fusion fusion(graph, where);
  return fusion.run() ? fusion.finish() : graph;
}

}  // namespace neap
