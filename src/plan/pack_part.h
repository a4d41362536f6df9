// Packing of bars: taken apart into parts that do not meet in time, then heuristics and search for each part.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/pack_bars.h"

namespace neap {

// The most bytes alive at once are `bound`: nothing is gained below. Above `limit` the packing is of no use.
struct PartGoals {
  std::int64_t bound = 0;
  std::int64_t limit = kNoCapacity;
};

struct PartsPacking {
  std::vector<std::int64_t> offsets;  // one a bar
  bool is_impossible = false;         // proved: nothing is below the limit
};

PartsPacking pack_parts(const Bars& bars, PartGoals goals, const PackLimits& limits);

}  // namespace neap
