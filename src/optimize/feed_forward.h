// Operator tiling of the feed-forward: product, activation, product run together over chunks of rows, so that the wide
// tensor between the products never exists as a whole.
//
// `feed-forward` does so where nobody else reads that tensor: in inference, and in parts of a network that are not
// trained. In training backward reads it: `feed-forward-again` makes it there once more, from the layer's input, in the
// same group that takes the gradient back through activation and both products. That costs a product a layer (a tenth
// of a transformer's step) and spares keeping the wide tensor of every layer, so it is switched on by name only.
#pragma once

#include "optimize/optimization.h"

namespace neap {

Graph with_tiled_feed_forward(const Graph& graph, const Where& where = {});
Graph with_feed_forward_again(const Graph& graph, const Where& where = {});

inline constexpr Optimization kFeedForward = {.name = "feed-forward",
                                              .what = "product, activation, product in chunks of rows",
                                              .makes = "feed_forward_rows",
                                              .strategy = Strategy::kMemory,
                                              .is_bitwise = true,
                                              .apply = with_tiled_feed_forward};

inline constexpr Optimization kFeedForwardAgain = {
    .name = "feed-forward-again",
    .what = "the same in training: backward makes what lies between again",
    .makes = "feed_forward_again_rows",
    .strategy = Strategy::kMemory,
    .is_bitwise = true,
    .is_by_name = true,
    .apply = with_feed_forward_again};

}  // namespace neap
