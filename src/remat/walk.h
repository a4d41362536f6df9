// Walks a program in its order under a budget. What does not fit makes room by eviction; what an op reads and is not
// resident is made again, with everything that takes, at the last moment. The rules say who is evicted.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "remat/problem.h"
#include "remat/uses.h"

namespace neap::remat {

struct WalkRules {
  // DTR: least cost / (bytes · staleness), cost with the evicted neighbourhood. Otherwise, with the future known: least
  // cost / (bytes · wait), where the wait is the number of ops until the next use, or its square root.
  bool is_dtr = false;
  bool is_wait_rooted = false;
  double used_ancestors = 1;  // share of the cost of evicted ancestors that are read again by themselves,
  double dead_ancestors = 1;  // and of those that are not
  double most_ms = 1e300;     // give up beyond
  std::size_t most_runs = SIZE_MAX;
  const std::function<bool()>* is_over = nullptr;  // asked now and then
};

// None: the budget is too small for these rules.
std::optional<std::vector<Step>> walk(const Problem& problem, const Uses& uses, std::int64_t budget,
                                      const WalkRules& rules);

}  // namespace neap::remat
