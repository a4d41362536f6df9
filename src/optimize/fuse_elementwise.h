// Kernel fusion: chains of elementwise ops (activation, dropout, residual, what exporters spell out), forward and
// backward, become one node that runs them chunk by chunk (ops/tiled), so that what lies between them never exists.
#pragma once

#include "optimize/optimization.h"

namespace neap {

Graph fuse_elementwise(const Graph& graph, const Where& where = {});

inline constexpr Optimization kFusedElementwise = {.name = "fuse",
                                                   .what = "chains of elementwise ops run together, chunk by chunk",
                                                   .makes = "fused",
                                                   .strategy = Strategy::kCompute,
                                                   .is_bitwise = true,
                                                   .on_cuda = OnCuda::kYes,
                                                   .apply = fuse_elementwise};

}  // namespace neap
