// Where a packing of the predicted lives would put the blocks of a step. As far as the predictions hold, so does this.
#pragma once

#include <cstdint>
#include <vector>

#include "pool/pool_walk.h"

namespace neap {

// Counted from the pool's begin.
struct PoolWishes {
  std::vector<std::int64_t> events;      // one an event
  std::vector<std::int64_t> workspaces;  // one a call; -1: it has none
};

PoolWishes wishes_of(const WalkInput& input, std::int64_t alignment);

std::int64_t workspace_of(const Costs& costs, const Call& call);

}  // namespace neap
