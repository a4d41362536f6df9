// The best schedule that we can find within a budget: walks with several rules, static choices and plain evictions give
// starts; local search improves the most promising.
#pragma once

#include <optional>
#include <vector>

#include "remat/bound.h"
#include "remat/minimum.h"
#include "remat/uses.h"

namespace neap::remat {

struct OracleOptions {
  std::int64_t budget = 0;
  double bound_ms = 0;           // proven: no need to search beyond
  const Bound* bound = nullptr;  // its cut gives a start
  bool is_fast = false;
  IsOver is_over;
};

// None: no start fits.
std::optional<std::vector<OpIndex>> oracle_runs(const Problem& problem, const Uses& uses, const OracleOptions& options);

}  // namespace neap::remat
