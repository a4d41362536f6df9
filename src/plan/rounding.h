// What a plan rounds. Two plans of one graph that round alike give the same bits, however they order, repeat and move
// things.
#pragma once

#include <cstdint>

#include "plan/plan.h"

namespace neap {

// Of all that calls read besides what its one regular run wrote: decoded tensors, and what was made again from these.
// 0: nothing.
std::uint64_t rounding_key(const Plan& plan, const Graph& graph);

// The levels of exactly the tensors that the plan encodes, as settled; how they are used is as in `allowed`.
StoredLevels settled_levels(const Plan& plan, const Graph& graph, const StoredLevels& allowed);

}  // namespace neap
