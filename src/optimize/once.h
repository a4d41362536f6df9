// Work on weights that need not be done again for every batch. A pass marks nodes that make something of weights and
// constants alone (quantized, pruned, packed); inference runs them once, when it loads the weights, and keeps what they
// make instead of what only they read.
#pragma once

#include "graph/graph.h"

namespace neap {

inline constexpr std::string_view kOnce = "once";  // the attribute: 1

struct Halves {
  Graph once;  // the marked nodes; its outputs are what the rest reads of them
  Graph rest;  // finds that among its buffers
};
// InternalError when a marked node reads what is made from data.
Halves split_once(const Graph& graph);

}  // namespace neap
