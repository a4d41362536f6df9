// Lower bounds that hold for every schedule, whatever order it runs the ops in.
//
// When op k runs for the first time, all its ancestors have run and none of its descendants has. A tensor made by an
// ancestor and read by a descendant is then either resident or will be made again, at the cost of its op at least. The
// cheapest way to bring the sum under the budget is a fractional knapsack over ops. At the op of the highest pressure
// the ancestors' own needs are counted too, by minimum cuts (cut.h).
#pragma once

#include "remat/uses.h"

namespace neap::remat {

struct Bound {
  double ms = 0;                  // no schedule within the budget takes less
  std::int64_t bytes = 0;         // no schedule at all has a smaller peak
  OpIndex turn = 0;               // with cuts: the op of the highest pressure,
  std::vector<bool> is_resident;  // and what the best cut that fits keeps over it
  OpIndex bytes_at = kNoOp;       // the op that asks for them
};

// `work` limits how many ops are looked at; the most pressing come first. `prices`: that many minimum cuts.
Bound lower_bound(const Problem& problem, const Uses& uses, std::int64_t budget, std::int64_t work, int prices = 0);

}  // namespace neap::remat
