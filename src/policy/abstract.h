// A program as an abstract rematerialisation problem, and its schedules as orders of runs. Bytes differ from the
// plan's: there tensors share blocks and live in parts, so whoever solves the problem corrects the budget by what the
// plan says.
#pragma once

#include <vector>

#include "policy/recompute.h"
#include "remat/problem.h"

namespace neap {

struct AbstractProgram {
  remat::Problem problem;     // its budget is for all but the state
  std::vector<NodeId> nodes;  // per op
};

AbstractProgram abstract_of(const Recompute& r);

// Updates are left to the planner.
std::vector<NodeId> order_of(const AbstractProgram& program, const Graph& graph, const std::vector<remat::Step>& steps);

}  // namespace neap
