// Where a forward pass is cut into the blocks in which the parts of a batch take turns.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace neap {

// Does this node see the whole batch, and not a part of it? Batch norm's statistics do.
bool sees_whole_batch(const Node& node);

// Indices of nodes at which blocks begin, rising, without 0. `forward` is that of one part in `parts`. When a block's
// backward pass runs, the gradients of all parts wait at its edges, and the sums of its own weights' gradients grow:
// the cuts keep the most that any block has of both as low as can be, with the fewest blocks. Behind a node that sees
// the whole batch there is always a cut.
std::vector<std::size_t> find_cuts(const Graph& forward, std::int64_t parts);

}  // namespace neap
