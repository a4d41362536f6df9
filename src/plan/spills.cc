#include "plan/spills.h"

#include <algorithm>

#include "neap/error.h"

namespace neap {
namespace {

class Spiller {
 public:
  Spiller(const Graph& graph, Schedule& schedule)
      : graph_(graph),
        s_(schedule),
        uses_(schedule.instances.size()),
        before_(schedule.calls.size()),
        behind_(schedule.calls.size()) {
    for (std::size_t c = 0; c < s_.calls.size(); ++c) note(c);
  }

  void run(const std::vector<Residency>& residency) {
    for (std::size_t i = 0; i < uses_.size(); ++i) {
      const std::uint32_t tensor = s_.instances[i].root.index;
      if (tensor < residency.size() && residency[tensor] == Residency::kSpill) spill(static_cast<std::int32_t>(i));
    }
    insert_calls(s_, before_, behind_);
  }

 private:
  struct Uses {
    bool is_of_forward = false;  // forward's own run writes it
    std::size_t last = 0;        // of forward
    std::vector<std::size_t> late;
  };

  Uses& uses_of(std::int32_t i) { return uses_[static_cast<std::size_t>(i)]; }

  void note(std::size_t c) {
    const Call& call = s_.calls[c];
    const bool late = is_late(graph_, call);
    for (const std::int32_t i : call.inputs) {
      if (i == kAbsent) continue;
      if (late) {
        uses_of(i).late.push_back(c);
      } else {
        uses_of(i).last = c;
      }
    }
    if (late) return;
    for (const std::int32_t i : call.outputs) {
      if (i != kAbsent) uses_of(i) = {.is_of_forward = true, .last = c, .late = {}};
    }
  }

  void spill(std::int32_t i) {
    Uses& uses = uses_of(i);
    std::erase_if(uses.late, [&](std::size_t c) { return c < uses.last; });
    if (!uses.is_of_forward || uses.late.empty()) return;
    const TensorId id = s_.instances[static_cast<std::size_t>(i)].root;
    const auto slot = static_cast<std::uint32_t>(s_.slots.size());
    s_.slots.push_back(graph_.at(id).type.bytes());
    s_.slot_tensors.push_back(id);
    s_.instances.push_back({.root = id});
    const auto back = static_cast<std::int32_t>(s_.instances.size() - 1);
    const NodeId producer = graph_.at(id).producer;
    for (const Action action : {Action::kSpillBegin, Action::kSpillWait}) {
      behind_[uses.last].push_back({.node = producer, .action = action, .slot = slot, .inputs = {i}});
    }
    for (const Action action : {Action::kFetchBegin, Action::kFetchWait}) {
      before_[uses.late.front()].push_back({.node = producer, .action = action, .slot = slot, .outputs = {back}});
    }
    for (const std::size_t c : uses.late) std::replace(s_.calls[c].inputs.begin(), s_.calls[c].inputs.end(), i, back);
    if (s_.current[id.index] == i) s_.current[id.index] = back;
  }

  const Graph& graph_;
  Schedule& s_;
  std::vector<Uses> uses_;                 // per instance
  std::vector<std::vector<Call>> before_;  // per call: what goes in
  std::vector<std::vector<Call>> behind_;
};

}  // namespace

void spill_saved(const Graph& graph, const std::vector<Window>& views, const Decisions& decisions, Schedule& schedule) {
  for (std::uint32_t i = 0; i < decisions.residency.size(); ++i) {
    const bool is_spilled = decisions.residency[i] == Residency::kSpill;
    require(!is_spilled || can_spill(graph, views, {i}), "only whole tensors that forward makes are spilled");
  }
  Spiller(graph, schedule).run(decisions.residency);
}

}  // namespace neap
