// Schedules for abstract problems, one policy each. Deterministic: work is counted, not timed, except that a limit in
// seconds, where one is given, ends the search early.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "remat/problem.h"

namespace neap::remat {

enum class Method : std::uint8_t { kOracle, kGreedy, kDtr, kStoreAll, kEveryLayer, kSqrt };

// By the name that --policy takes (`adaptive` is the oracle: an abstract problem has nothing to learn from); none: no
// such.
std::optional<Method> method_named(std::string_view name);

struct SolveOptions {
  Method method = Method::kOracle;
  bool is_fast = false;       // one pass and a short polish: some tens of milliseconds for a thousand ops
  bool wants_minimum = true;  // false: min_budget_bytes is only set when the budget is not met
  double seconds = 5;         // the search for better schedules ends then at the latest
};

// The problem is sound (find_fault). The schedule replays within the budget when `feasible`.
Answer solve(const Problem& problem, const SolveOptions& options = {});

}  // namespace neap::remat
