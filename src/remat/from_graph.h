// The abstract problem of a training graph: one op a node that runs, one tensor a root of views.
#pragma once

#include "plan/plan.h"
#include "remat/problem.h"

namespace neap::remat {

// Inputs of the step and state are inputs of the problem; nodes that change state run once; the graph's outputs are
// kept. In-place execution is not modelled: a problem may ask for more bytes than the plan of the same order.
Problem problem_of(const Graph& graph, const Costs& costs);

}  // namespace neap::remat
