// What a trainer does about transfers: where they go, when a new plan is due, and what to say when they fail.
#pragma once

#include <string>

#include "device/device.h"
#include "neap/train.h"
#include "plan/plan.h"
#include "pool/spill_store.h"

namespace neap {

// For a store that serves `plan` in `memory`. What a step that cannot be run again spills, is kept twice.
SpillOptions spill_options(const TrainOptions& options, const Plan& plan, const Graph& graph,
                           std::span<std::byte> memory, std::shared_ptr<SpillFaults> faults);

// On the device where the tensors are. UserError: the application links none, or the folder cannot be used.
std::unique_ptr<SpillStore> make_store(const Device& device, const std::vector<std::int64_t>& slots,
                                       const SpillOptions& options);

// How fast the place that the options name for so many bytes is read: tried out, where that takes no GPU.
double read_bytes_per_ms(const Device& device, const TrainOptions& options, std::int64_t bytes, double guessed);

// Nothing that stays is changed before the last fetch is in.
bool can_run_again(const Plan& plan, const Graph& graph);

// Bytes that the plan's slots take outside of the arena at most, copies included: those that share a place count apart.
std::int64_t needed_room(const Plan& plan, const Graph& graph);

// What a store did between two readings of its counters.
SpillCounters between(const SpillCounters& before, const SpillCounters& after);

// Steps whose calls wait for transfers: when that goes on, the disk is not what the plan reckons with, or transfers
// begin too late. Then a new plan is due, with rates as measured and more room for delays.
class SpillWatch {
 public:
  // After each step with transfers; `link` is what the plan was made with. True: plan again with it, now changed.
  bool is_plan_due(const SpillCounters& step, double step_ms, Link& link);
  // Times of the steps so far count no more.
  void start_over() { seen_ = {}; }

 private:
  struct Seen {
    int steps = 0;
    int stalled = 0;
    SpillCounters sum;
  };
  Seen seen_;
  int window_ = 3;  // steps; doubles with every plan, so that planning stays a small share
};

// One line for a run that cannot go on.
std::string text_of(const SpillLost& lost, std::int64_t step, bool state_has_changed);

}  // namespace neap
