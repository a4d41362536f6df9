// Walks a plan in program order without a device: peak bytes and time. Safety never depends on the time.
#pragma once

#include <vector>

#include "plan/plan.h"

namespace neap {

struct Simulation {
  std::int64_t peak_bytes = 0;  // the highest arena byte that any instruction uses
  double ms = 0;
  double recomputed_ms = 0;
  std::vector<std::int64_t> live_bytes;  // per instruction
};

Simulation simulate(const Plan& plan, const Costs& costs);

}  // namespace neap
