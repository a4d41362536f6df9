// The loss over a large vocabulary in tiles: a linear layer and the cross entropy of its logits become one node
// (ops/linear_loss), so that the logits never exist as a whole.
#pragma once

#include "graph/graph.h"

namespace neap {

inline constexpr std::int64_t kLargeVocabulary = 4096;

// A forward graph. Losses over fewer classes, and logits that something else reads too, stay as they are.
Graph with_tiled_loss(const Graph& graph, std::int64_t least_classes = kLargeVocabulary);

}  // namespace neap
