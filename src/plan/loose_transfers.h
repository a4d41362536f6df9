// Behind packing: transfers take as long as the arena has room for what they move, moment by moment. A schedule knows
// one bound for what may be on its way, all through the step; the fullest moment sets it, and others have room to
// spare.
#pragma once

#include "plan/plan.h"

namespace neap {

inline constexpr double kAsEarlyAsItCan = 1e9;  // as a lead: whenever there is a place

// A spill is waited for when it is reckoned to be done, if nobody needs its place before that; a fetch begins so early
// that it is done in time, if from then on there is a place for it within `budget`, which it is given. `lead`: as if
// transfers took that many times as long as `link` says. Everything else stays
// where it is and in its order, and so do fetches among themselves. A valid plan stays one, and none comes to need more
// than the budget.
Plan with_loose_transfers(Plan plan, const Costs& costs, const Link& link, double lead, std::int64_t budget);

}  // namespace neap
