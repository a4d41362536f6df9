// A batch in parts within one step: the forward pass of a part, copied for each of them into one graph. Block by block
// the parts take turns, so that backward goes block by block, too, and a weight's gradient lives in its own block only.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace neap {

// `forward` is built for one part of the batch; inputs that come with a batch have it as their first axis. The result
// takes whole batches, of which part p is the p-th piece of the rows; its loss is the mean of the parts' losses. What
// depends on no input is there once. Batch norm's statistics are those of the whole batch, merged from the parts'.
Graph split_batch(const Graph& forward, std::int64_t parts);

}  // namespace neap
