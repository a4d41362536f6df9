// What must be resident when one op first runs, if all that comes later had memory in plenty.
//
// Let op k run. What its descendants read and its ancestors made is resident then, or is made again by ops whose inputs
// are resident or made again. With a price for each resident byte, the cheapest choice is a minimum cut; for any price,
// cut − price · room is a lower bound on the time of re-runs, whatever the order. The best price is searched for.
#pragma once

#include <vector>

#include "remat/uses.h"

namespace neap::remat {

struct CutBound {
  double ms = 0;                  // of re-runs, at least
  std::vector<bool> is_resident;  // per tensor, at the op, for the best price; inputs are not in it
};

CutBound cut_bound(const Problem& problem, const Uses& uses, OpIndex k, std::int64_t budget, int prices,
                   std::int64_t work);

}  // namespace neap::remat
