// Recomputing and spilling together: what is cheap to compute again is, and of the rest as much leaves the arena as
// must and as the link carries beside the calls.
#pragma once

#include "policy/oracle.h"
#include "policy/spill.h"

namespace neap {

// The fastest plan within the budget that does both, by the simulator. None: nothing that fits takes less than
// `best_ms`.
std::optional<TimedPlan> joint_within(const PlanningProblem& problem, std::int64_t budget, double best_ms);

// The plan of the least bytes: all that waits and can leave does, beside recomputation or instead of it.
Plan joint_smallest(const PlanningProblem& problem);

}  // namespace neap
