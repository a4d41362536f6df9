// The order of a plan's calls, for another plan that keeps it.
#pragma once

#include <vector>

#include "plan/plan.h"

namespace neap {

// As Decisions::order: forward and backward, whatever runs again more than once. Concatenations whose parts are written
// in their places have no call in the plan; here they have, before what reads them.
std::vector<NodeId> order_of(const Plan& plan, const Graph& graph);

}  // namespace neap
