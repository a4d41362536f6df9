// What a run rounds from one choice of levels to the next: settled by guessed costs, never by measured ones, since
// rounding changes bits. Plans made from measured times must round alike.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"

namespace neap {

struct Rounded {
  StoredLevels levels;           // settled
  std::uint64_t key = 0;         // rounding_key()
  std::vector<TensorId> trials;  // tensors of which the plan has room to measure the sensitivity, in program order

  std::int64_t bytes() const;  // that this takes
};

// Memory that a plan takes.
std::int64_t own_bytes(const Plan& plan);

// What `plan` rounds of the levels that it may have.
Rounded rounded_by(const Plan& plan, const Graph& graph, const StoredLevels& allowed);

// The same bits, and room for the same measurements.
bool rounds_alike(const Plan& plan, const Graph& graph, const Rounded& rounded);

}  // namespace neap
