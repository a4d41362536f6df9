// Behind packing: lets fetches begin while the arena has room for what they bring, moment by moment.
#pragma once

#include "plan/plan.h"

namespace neap {

// For plans that only fetch: weights that wait outside. Each fetch begins as early as there is a place within `budget`
// that is free from then on; it is given that place. Everything else stays where and in the order it is, and so do the
// fetches among themselves. A valid plan stays one, and none comes to need more than the budget.
Plan with_early_fetches(Plan plan, std::int64_t budget);

}  // namespace neap
