// Walks a program in its order under a budget. What does not fit makes room by eviction; what an op reads and is not
// resident is made again, with everything that takes, at the last moment. The rules say who is evicted.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "remat/problem.h"
#include "remat/uses.h"

namespace neap::remat {

struct WalkRules {
  // DTR: least cost / (bytes · staleness), cost with the evicted neighbourhood. Otherwise, with the future known: least
  // cost / (bytes^size_power · price until the next use).
  bool is_dtr = false;
  double size_power = 1;
  double wait_power = 1;
  double used_ancestors = 1;            // share of the cost of evicted ancestors that are read again by themselves,
  double dead_ancestors = 1;            // and of those that are not
  const double* price_until = nullptr;  // per op, and one for the end: the sum of prices up to it, ascending
  const double* bias = nullptr;         // per tensor: multiplies its score; null: all 1
  double most_ms = 1e300;               // give up beyond
  std::size_t most_runs = SIZE_MAX;
};

// None: the budget is too small for these rules.
std::optional<std::vector<Step>> walk(const Problem& problem, const Uses& uses, std::int64_t budget,
                                      const WalkRules& rules);

}  // namespace neap::remat
