// Second stage of planning: which instances share a block (in place, or as part of a concatenation).
#pragma once

#include <cstdint>
#include <vector>

#include "plan/schedule.h"

namespace neap {

struct Placement {
  std::int32_t block = -1;
  std::int64_t offset = 0;  // inside the block
};

struct Storage {
  std::vector<Block> blocks;          // no offsets yet; workspaces are not here
  std::vector<Placement> placements;  // one an instance
  std::vector<bool> elided;           // one a call: it has nothing left to do
};

Storage assign_storage(const Graph& graph, const Schedule& schedule, const std::vector<Window>& views);

}  // namespace neap
