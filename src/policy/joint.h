// All that may become of an activation in one plan: what is cheap to compute again is, what a tolerance allows in fewer
// bits is encoded, and of the rest as much leaves the arena as must and as the link carries beside the calls.
#pragma once

#include <span>

#include "policy/oracle.h"
#include "policy/spill.h"

namespace neap {

// How thoroughly: the work for each set of tensors that are kept, and how many of those are tried.
struct JointEffort {
  OracleEffort each;
  // Of what lies between the budget and keeping everything, in percent: recomputation fits the tensors into the budget
  // plus this much, and the other means make up for it.
  std::span<const int> shares;
  int prices = 0;  // of the link, at which the joint program is asked, each between the two that came closest
};
extern const JointEffort kJointWhileRunning;
extern const JointEffort kJointThorough;  // seconds

// The fastest plan within the budget that combines them, by the simulator: fewer bits where the problem has levels,
// transfers if `may_spill`. None: nothing that fits takes less than `best_ms`.
std::optional<TimedPlan> joint_within(const PlanningProblem& problem, std::int64_t budget, double best_ms,
                                      bool may_spill, const JointEffort& effort = kJointWhileRunning);

// The plan of the least bytes: by recomputation alone, or all that waits is encoded, where the problem has levels, and
// leaves, if it may; beside recomputation or instead of it.
Plan joint_smallest(const PlanningProblem& problem, bool may_spill);

}  // namespace neap
