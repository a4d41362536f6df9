// Settles the numerics: picks and prepares one kernel for each distinct call, before any plan is made. What it picks is
// a function of graph, device and flags alone, never of budget, policy, free bytes or timing.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "device/kernel.h"
#include "graph/graph.h"
#include "plan/plan.h"

namespace neap {

struct Program {
  Graph graph;                                   // static shapes
  std::vector<std::shared_ptr<Kernel>> kernels;  // one a node; null: a view, or a device that only counts
  std::vector<std::string> kernel_names;         // one a node
  Costs costs;
  std::string numerics_id;  // 16 hexadecimal digits over all of it
};

// `own_only`: without the kernels of other libraries, which may allocate when they run.
Program prepare(Graph graph, Device& device, bool own_only = false);

}  // namespace neap
