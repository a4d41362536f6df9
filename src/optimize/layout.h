// Data layout: transposes go where they cancel or a product can do them by the way (optimize/transposes.h); in
// inference those of weights are done once, and weights of layers are packed once, as the product reads them
// (ops/packed).
#pragma once

#include "optimize/optimization.h"

namespace neap {

Graph with_layout(const Graph& graph, const Where& where = {});

inline constexpr Optimization kLayout = {.name = "layout",
                                         .what = "transposes cancelled, weights packed for their product",
                                         .makes = "linear_packed",
                                         .strategy = Strategy::kMemory,
                                         .is_bitwise = true,
                                         .apply = with_layout};

}  // namespace neap
