// The last touches of a plan whose instructions and offsets are there.
#pragma once

#include "plan/plan.h"

namespace neap {

// Of each block: from the first instruction that touches it to the last; leaves from the start, results to the end.
void set_lifetimes(Plan& plan, const Graph& graph);

// Fetches that were called off leave blocks behind that nobody touches. Needs the lifetimes.
void drop_unused_blocks(Plan& plan);

}  // namespace neap
