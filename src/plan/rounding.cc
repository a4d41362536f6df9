#include "plan/rounding.h"

#include <map>

#include "core/random.h"

namespace neap {
namespace {

// A value is a number: 0 is what the node's regular run wrote, anything else says how it came about.
class Walk {
 public:
  Walk(const Plan& plan, const Graph& graph)
      : plan_(plan), graph_(graph), views_(find_views(graph)), slots_(plan.slots.size()) {}

  std::uint64_t run() {
    for (const Instruction& in : plan_.instructions) {
      if (is_call(in.action)) call(in);
      if (is_codec(in.action)) convert(in);
      if (in.action == Action::kSpillBegin) slots_[in.slot.index] = value(in.inputs[0], slot_tensor(in));
      if (in.action == Action::kFetchBegin) set(in.outputs[0], slot_tensor(in), slots_[in.slot.index]);
    }
    return key_;
  }

 private:
  using Values = std::vector<std::uint64_t>;

  TensorId root(TensorId id) const { return views_[id.index].root; }
  TensorId slot_tensor(const Instruction& in) const { return plan_.slot_tensors[in.slot.index]; }

  std::uint64_t value(const Operand& at, TensorId id) const {
    const auto found = values_.find({at.block.index, root(id).index});
    return found == values_.end() ? 0 : found->second;
  }

  void set(const Operand& at, TensorId id, std::uint64_t to) {
    if (!at.block) return;
    const std::pair<std::uint32_t, std::uint32_t> where{at.block.index, root(id).index};
    if (to == 0) {
      values_.erase(where);
    } else {
      values_[where] = to;
    }
  }

  void call(const Instruction& in) {
    const Node& node = graph_.at(in.node);
    Values read;
    for (std::size_t i = 0; i < in.inputs.size(); ++i) {
      if (!in.inputs[i].block) continue;
      const std::uint64_t v = value(in.inputs[i], node.inputs[i]);
      if (v != 0) read.push_back(mix(i, v));
    }
    std::uint64_t made = 0;
    if (in.action == Action::kRun) {
      for (const std::uint64_t v : read) key_ += mix(in.node.index, v);  // a sum: the order of calls is no matter
      if (!read.empty()) regular_[in.node.index] = read;
    } else if (const auto found = regular_.find(in.node.index);
               read != (found == regular_.end() ? Values{} : found->second)) {
      made = in.node.index + 1;
      for (const std::uint64_t v : read) made = mix(made, v);
    }
    for (std::size_t o = 0; o < in.outputs.size(); ++o) {
      set(in.outputs[o], node.outputs[o], made == 0 ? 0 : mix(made, o));
    }
  }

  // Encoded and decoded are one value: rounding is a function of the tensor, the level and the step.
  void convert(const Instruction& in) {
    const std::uint64_t from = value(in.inputs[0], in.tensor);
    const std::uint64_t rounded = mix(mix(in.tensor.index + 1, index_of(in.level) + 1), from);
    set(in.outputs[0], in.tensor, in.action == Action::kEncode ? rounded : from);
  }

  const Plan& plan_;
  const Graph& graph_;
  std::vector<Window> views_;
  Values slots_;                                                             // what each holds
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> values_;  // by block and tensor, if not 0
  std::map<std::uint32_t, Values> regular_;                                  // per node: what its regular run read
  std::uint64_t key_ = 0;
};

}  // namespace

std::uint64_t rounding_key(const Plan& plan, const Graph& graph) { return Walk(plan, graph).run(); }

StoredLevels settled_levels(const Plan& plan, const Graph& graph, const StoredLevels& allowed) {
  StoredLevels out{.of = std::vector(graph.tensors.size(), precision::Level::kFp32),
                   .may_feed_recomputation = allowed.may_feed_recomputation,
                   .flow = allowed.flow,
                   .is_settled = true};
  for (const Instruction& in : plan.instructions) {
    if (in.action == Action::kEncode) out.of[in.tensor.index] = in.level;
  }
  return out;
}

}  // namespace neap
