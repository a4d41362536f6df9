// From a group of nodes to one node that runs them by rows.
#pragma once

#include <optional>

#include "optimize/row_groups.h"

namespace neap {

// Nothing where the nodes do not go by the same rows, would run in one chunk, or do not keep their bits in chunks.
std::optional<RowNode> row_node(const Graph& graph, const RowGroup& group);

}  // namespace neap
