#include "plan/storage.h"

#include <algorithm>

#include "core/bytes.h"
#include "graph/op.h"

namespace neap {
namespace {

class Assigner {
 public:
  Assigner(const Graph& graph, const Schedule& schedule, const std::vector<Window>& views)
      : graph_(graph), schedule_(schedule), views_(views) {
    out_.placements.resize(schedule.instances.size());
    out_.elided.resize(schedule.calls.size());
  }

  Storage run() {
    for (std::uint32_t i = 0; i < graph_.tensors.size(); ++i) {
      if (graph_.tensors[i].producer || schedule_.current[i] == kAbsent) continue;
      open_block(schedule_.current[i], leaf_kind(graph_.tensors[i].role));
    }
    for (Tick t = 0; t < schedule_.calls.size(); ++t) gather_parts(t);
    for (Tick t = 0; t < schedule_.calls.size(); ++t) place_outputs(t);
    return std::move(out_);
  }

 private:
  static BlockKind leaf_kind(Role role) { return is_state(role) ? BlockKind::kState : BlockKind::kInput; }

  const Instance& instance(std::int32_t i) const { return schedule_.instances[static_cast<std::size_t>(i)]; }
  Placement& placement(std::int32_t i) { return out_.placements[static_cast<std::size_t>(i)]; }
  std::int64_t bytes_of(std::int32_t i) const {
    const TensorType& type = graph_.at(instance(i).root).type;
    const precision::Level level = instance(i).level;
    return level == precision::Level::kFp32 ? type.bytes() : precision::encoded_bytes(level, type.elements());
  }

  void open_block(std::int32_t i, BlockKind kind) {
    const Instance& it = instance(i);
    placement(i) = {static_cast<std::int32_t>(out_.blocks.size()), 0};
    out_.blocks.push_back({.kind = kind,
                           .tensor = it.root,
                           .bytes = align_up(bytes_of(i)),
                           .lower = it.lower,
                           .upper = it.upper,
                           .level = it.level});
    occupants_.push_back(1);
  }

  // The parts of a concatenation are written where the whole will lie. All of them, or none.
  void gather_parts(Tick t) {
    const Call& call = schedule_.calls[t];
    const Node& node = graph_.at(call.node);
    if (node.op->part_offset == nullptr || call.action != Action::kRun) return;
    const OpCall types = call_of(graph_, node);
    std::vector<std::int64_t> offsets;
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      const auto offset = node.op->part_offset(types, i);
      const bool is_repeated = std::count(call.inputs.begin(), call.inputs.end(), call.inputs[i]) > 1;
      if (!offset || *offset % kAlignment != 0 || is_repeated || !is_movable(call.inputs[i], node.inputs[i])) return;
      offsets.push_back(*offset);
    }
    const std::int32_t whole = call.outputs[0];
    open_block(whole, kind_of(whole));
    Block& block = out_.blocks.back();
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      placement(call.inputs[i]) = {placement(whole).block, offsets[i]};
      block.lower = std::min(block.lower, instance(call.inputs[i]).lower);
      block.upper = std::max(block.upper, instance(call.inputs[i]).upper);
      ++occupants_.back();
    }
    out_.elided[t] = true;
  }

  bool is_movable(std::int32_t i, TensorId as) {
    const Tensor& root = graph_.at(instance(i).root);
    return root.producer && as == instance(i).root && placement(i).block < 0;
  }

  BlockKind kind_of(std::int32_t i) const {
    const Tensor& t = graph_.at(instance(i).root);
    if (!t.producer) return BlockKind::kTransient;  // a weight, while it is here
    if (graph_.at(t.producer).phase != Phase::kForward) return BlockKind::kGradient;
    const Action made = schedule_.calls[instance(i).lower].action;
    const bool is_made_again = made == Action::kRecompute || made == Action::kDecode;
    const Call& last = schedule_.calls[instance(i).upper - 1];
    const bool reaches_backward = last.action == Action::kRecompute || last.action == Action::kDecode ||
                                  graph_.at(last.node).phase != Phase::kForward;
    return reaches_backward && !is_made_again ? BlockKind::kSaved : BlockKind::kTransient;
  }

  void place_outputs(Tick t) {
    const Call& call = schedule_.calls[t];
    const Node& node = graph_.at(call.node);
    for (std::size_t o = 0; o < call.outputs.size(); ++o) {
      const std::int32_t output = call.outputs[o];
      if (output == kAbsent || placement(output).block >= 0) continue;
      if (!take_over_input(t, call, node, o)) open_block(output, kind_of(output));
    }
  }

  bool take_over_input(Tick t, const Call& call, const Node& node, std::size_t o) {
    if (!is_call(call.action)) return false;
    for (const InOut& pair : node.op->in_place) {
      if (pair.output != o || pair.input >= call.inputs.size()) continue;
      const std::int32_t input = call.inputs[pair.input];
      if (input == kAbsent || !may_overwrite(t, call, node, pair.input)) continue;
      if (bytes_of(input) != bytes_of(call.outputs[o])) continue;
      placement(call.outputs[o]) = placement(input);
      Block& block = out_.blocks[static_cast<std::size_t>(placement(input).block)];
      block.upper = std::max(block.upper, instance(call.outputs[o]).upper);
      if (kind_of(call.outputs[o]) == BlockKind::kSaved) block.kind = BlockKind::kSaved;
      return true;
    }
    return false;
  }

  bool may_overwrite(Tick t, const Call& call, const Node& node, std::size_t i) {
    const std::int32_t input = call.inputs[i];
    const Tensor& root = graph_.at(instance(input).root);
    const auto block = static_cast<std::size_t>(placement(input).block);
    const bool dies_here = instance(input).upper == t + 1 && out_.blocks[block].upper == t + 1;
    const bool is_only_reader = std::count(call.inputs.begin(), call.inputs.end(), input) == 1;
    const bool is_whole = views_[node.inputs[i].index].offset == 0 && occupants_[block] == 1;
    return root.producer && dies_here && is_only_reader && is_whole;
  }

  const Graph& graph_;
  const Schedule& schedule_;
  const std::vector<Window>& views_;
  Storage out_;
  std::vector<int> occupants_;  // per block: more than one where parts of a concatenation live in it
};

}  // namespace

Storage assign_storage(const Graph& graph, const Schedule& schedule, const std::vector<Window>& views) {
  return Assigner(graph, schedule, views).run();
}

}  // namespace neap
