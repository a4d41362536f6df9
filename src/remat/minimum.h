// The least peak that a rule, or all that we know, can reach.
#pragma once

#include <functional>
#include <vector>

#include "remat/uses.h"
#include "remat/walk.h"

namespace neap::remat {

struct Smallest {
  std::int64_t peak = INT64_MAX;
  std::vector<OpIndex> runs;
};

inline constexpr double kDtrMostTimes = 30;  // beyond that, DTR counts as out of memory

using IsOver = std::function<bool()>;

// By bisection between what no schedule can go below and what eager execution takes; a walk counts as possible while it
// takes no more than `most_times` the time of every op once.
Smallest smallest_walk(const Problem& problem, const Uses& uses, WalkRules rules, double most_times,
                       std::int64_t at_least, Smallest start, const IsOver& is_over);

// The best of several rules, and evictions on top of it.
Smallest smallest_known(const Problem& problem, const Uses& uses, std::int64_t at_least, const IsOver& is_over);

}  // namespace neap::remat
