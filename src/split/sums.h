// Sums of the parts' gradients, in place.
#pragma once

#include "graph/graph.h"

namespace neap {

// Where a part's gradient of a weight is added to that of the parts before and is larger than what it is made from,
// it is added while it is computed (conv_add_weight, linear_add_weight) and has no memory of its own. And convolutions
// whose weights are larger than their operands make dx without a copy of the weight.
Graph with_sums_in_place(const Graph& graph);

}  // namespace neap
