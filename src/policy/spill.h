// Spilling as a policy of its own: no recomputation beyond the lossless forms, only transfers out of the arena and
// back.
#pragma once

#include "plan/plan.h"

namespace neap {

// Tensors that may leave, those with the longest remaining life first: what is made early in forward is needed late in
// backward, and lies idle the longest.
std::vector<TensorId> spill_order(const Graph& graph, const Costs& costs);

// The lossless forms with the first `count` of the order spilled.
Decisions spill_first(const Graph& graph, const std::vector<TensorId>& order, std::size_t count,
                      std::int64_t flight_bytes, const Link& link);

}  // namespace neap
