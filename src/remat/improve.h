// Local search over sequences of runs. One move takes a re-run out, so that its outputs stay resident instead, and then
// evicts what costs least per byte until the budget holds again; it stands when that came cheaper.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "remat/problem.h"
#include "remat/uses.h"

namespace neap::remat {

struct ImproveOptions {
  std::int64_t budget = 0;
  std::int64_t work = 0;  // about the number of tensors looked at
  std::uint64_t seed = 1;
  std::function<bool()> is_over;  // asked now and then; null: never
};

// `runs` fit the budget. The result fits too and is no slower.
std::vector<OpIndex> improve(const Problem& problem, const Uses& uses, const std::vector<OpIndex>& runs,
                             const ImproveOptions& options);

// Evicts from a sequence that does not fit until it does, the cheapest first. What comes out may still not fit.
std::vector<OpIndex> evict_until_it_fits(const Problem& problem, const Uses& uses, const std::vector<OpIndex>& runs,
                                         const ImproveOptions& options);

}  // namespace neap::remat
