// Settles what is rounded: from guesses alone, by a policy that has learnt nothing. A function of the program, the
// budget and the levels that may be chosen from.
#pragma once

#include <optional>

#include "policy/policy.h"

namespace neap {

// The plan that says it, see rounded_by(). `guessed` has levels to choose from and nothing that was measured.
Plan settling_plan(const Policy& policy, const PlanningProblem& guessed, std::optional<std::int64_t> budget);

}  // namespace neap
