#include "plan/spills.h"

#include <algorithm>

#include "neap/error.h"

namespace neap {
namespace {

constexpr std::size_t kLongWaitOfWeights = 6;  // calls between two uses

class Spiller {
 public:
  Spiller(const Graph& graph, Schedule& schedule, std::size_t long_wait)
      : graph_(graph),
        s_(schedule),
        long_wait_(long_wait),
        uses_(schedule.instances.size()),
        before_(schedule.calls.size()),
        behind_(schedule.calls.size()) {
    for (std::size_t c = 0; c < s_.calls.size(); ++c) note(c);
  }

  void run(const Decisions& decisions) {
    for (std::size_t i = 0; i < uses_.size(); ++i) {
      const std::uint32_t tensor = s_.instances[i].root.index;
      const bool is_spilled = tensor < decisions.residency.size() && decisions.residency[tensor] == Residency::kSpill;
      if (!is_spilled) continue;
      if (!graph_.at(s_.instances[i].root).producer) {
        bring(static_cast<std::int32_t>(i));
      } else if (long_wait_ > 0) {
        spill_every_wait(static_cast<std::int32_t>(i));
      } else {
        spill(static_cast<std::int32_t>(i));
      }
    }
    insert_calls(s_, before_, behind_);
  }

 private:
  struct Uses {
    bool is_of_forward = false;  // forward's own run writes it
    bool is_first = false;       // a run writes it that makes nothing again
    std::size_t last = 0;        // of forward
    std::vector<std::size_t> late;
    std::vector<std::size_t> all;  // the run that writes it, then those that read it
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
      if (uses_of(i).all.empty() || uses_of(i).all.back() != c) uses_of(i).all.push_back(c);
    }
    for (const std::int32_t i : call.outputs) {
      if (i == kAbsent) continue;
      uses_of(i) = {.is_first = call.action == Action::kRun, .all = {c}};
      if (late) continue;
      uses_of(i).is_of_forward = true;
      uses_of(i).last = c;
    }
  }

  void spill(std::int32_t i) {
    Uses& uses = uses_of(i);
    std::erase_if(uses.late, [&](std::size_t c) { return c < uses.last; });
    if (!uses.is_of_forward || uses.late.empty()) return;
    const std::uint32_t slot = send(i, uses.last);
    const std::int32_t back = fetch(i, slot, uses.late.front());
    for (const std::size_t c : uses.late) std::replace(s_.calls[c].inputs.begin(), s_.calls[c].inputs.end(), i, back);
    finish(i, back);
  }

  // Behind the uses before the first long wait it goes out, and comes in again behind each.
  void spill_every_wait(std::int32_t i) {
    const Uses& uses = uses_of(i);
    if (!uses.is_first) return;
    std::uint32_t slot = 0;
    std::int32_t back = kAbsent;
    for (std::size_t u = 1; u < uses.all.size(); ++u) {
      const std::size_t c = uses.all[u];
      if (c - uses.all[u - 1] > long_wait_) {
        if (back == kAbsent) slot = send(i, uses.all[u - 1]);
        back = fetch(i, slot, c);
      }
      if (back != kAbsent) std::replace(s_.calls[c].inputs.begin(), s_.calls[c].inputs.end(), i, back);
    }
    if (back != kAbsent) finish(i, back);
  }

  // A weight, for its readers.
  void bring(std::int32_t i) {
    const TensorId id = s_.instances[static_cast<std::size_t>(i)].root;
    const std::vector<std::size_t> uses = uses_of(i).all;
    const std::uint32_t slot = add_slot(id);
    std::int32_t here = kAbsent;
    for (std::size_t u = 0; u < uses.size(); ++u) {
      if (u == 0 || uses[u] - uses[u - 1] > kLongWaitOfWeights) here = fetch(i, slot, uses[u]);
      std::replace(s_.calls[uses[u]].inputs.begin(), s_.calls[uses[u]].inputs.end(), i, here);
    }
    s_.current[id.index] = kAbsent;
  }

  std::uint32_t add_slot(TensorId id) {
    s_.slots.push_back(graph_.at(id).type.bytes());
    s_.slot_tensors.push_back(id);
    return static_cast<std::uint32_t>(s_.slots.size() - 1);
  }

  // Behind call c; the slot that it goes to.
  std::uint32_t send(std::int32_t i, std::size_t c) {
    const TensorId id = s_.instances[static_cast<std::size_t>(i)].root;
    const std::uint32_t slot = add_slot(id);
    for (const Action action : {Action::kSpillBegin, Action::kSpillWait}) {
      behind_[c].push_back({.node = graph_.at(id).producer, .action = action, .slot = slot, .inputs = {i}});
    }
    return slot;
  }

  // Before call c; the instance that it comes in as.
  std::int32_t fetch(std::int32_t i, std::uint32_t slot, std::size_t c) {
    const TensorId id = s_.instances[static_cast<std::size_t>(i)].root;
    s_.instances.push_back({.root = id});
    const auto back = static_cast<std::int32_t>(s_.instances.size() - 1);
    const NodeId node = graph_.at(id).producer ? graph_.at(id).producer : s_.calls[c].node;
    for (const Action action : {Action::kFetchBegin, Action::kFetchWait}) {
      before_[c].push_back({.node = node, .action = action, .slot = slot, .outputs = {back}});
    }
    return back;
  }

  void finish(std::int32_t i, std::int32_t back) {
    const TensorId id = s_.instances[static_cast<std::size_t>(i)].root;
    if (s_.current[id.index] == i) s_.current[id.index] = back;
  }

  const Graph& graph_;
  Schedule& s_;
  std::size_t long_wait_;                  // calls; 0: only the one between forward and backward counts
  std::vector<Uses> uses_;                 // per instance
  std::vector<std::vector<Call>> before_;  // per call: what goes in
  std::vector<std::vector<Call>> behind_;
};

}  // namespace

void spill_saved(const Graph& graph, const std::vector<Window>& views, const Decisions& decisions, Schedule& schedule) {
  const std::vector<bool> is_streamable = find_streamable(graph, views);
  for (std::uint32_t i = 0; i < decisions.residency.size(); ++i) {
    const bool is_spilled = decisions.residency[i] == Residency::kSpill;
    const bool can = decisions.every_wait_above > 0 ? can_leave(graph, views, {i}) : can_spill(graph, views, {i});
    require(!is_spilled || can || is_streamable[i],
            "only whole tensors that nodes make are spilled, in backward only if every wait counts; and weights");
  }
  Spiller(graph, schedule, decisions.every_wait_above).run(decisions);
}

}  // namespace neap
