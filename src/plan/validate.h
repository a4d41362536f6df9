// Checks a plan against its graph from scratch: shares no code with the planner, and runs before every plan is
// executed.
#pragma once

#include <optional>
#include <string>

#include "plan/plan.h"

namespace neap {

// Null when the plan is sound; else what is wrong, and where.
std::optional<std::string> validate(const Plan& plan, const Graph& graph, const Costs& costs);

}  // namespace neap
