// All that may become of an activation in one plan: what is cheap to compute again is, what a tolerance allows in fewer
// bits is encoded, and of the rest as much leaves the arena as must and as the link carries beside the calls.
#pragma once

#include "policy/oracle.h"
#include "policy/spill.h"

namespace neap {

// The fastest plan within the budget that combines them, by the simulator: fewer bits where the problem has levels,
// transfers if `may_spill`. None: nothing that fits takes less than `best_ms`.
std::optional<TimedPlan> joint_within(const PlanningProblem& problem, std::int64_t budget, double best_ms,
                                      bool may_spill);

// The plan of the least bytes: all that waits is encoded, where the problem has levels, and leaves, if it may; beside
// recomputation or instead of it.
Plan joint_smallest(const PlanningProblem& problem, bool may_spill);

}  // namespace neap
