// Settings of what Neap does to the pieces of a graph while it runs.
#pragma once

#include <optional>

namespace neap {

struct SubgraphOptions {
  std::optional<int> initial_granularity;  // cuts from the whole graph down to the first pieces; none: 3, or what fits
  double performance_threshold = 0.5;      // share of the roofline; a piece below is split
  double merging_threshold = 0.9;          // neighbours above it become one piece
  int window = 4;                          // samples that a piece must stay below or above
  int cooldown = 8;                        // samples in which a piece that has changed is left alone
};

}  // namespace neap
