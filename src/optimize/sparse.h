// Layers whose weight was pruned (optimize/prune.h) run in kernels that skip the zeros (ops/sparse), with weights
// packed once. Convolutions, and layers for which the dense kernel is as good, stay as they are.
#pragma once

#include "optimize/optimization.h"

namespace neap {

Graph with_sparse_layers(const Graph& graph, const Where& where = {});

inline constexpr Optimization kSparseLayers = {.name = "sparse",
                                               .what = "layers with pruned weights skip the zeros (neap infer --prune)",
                                               .makes = "linear_sparse",
                                               .strategy = Strategy::kCompute,
                                               .is_bitwise = false,
                                               .on_cuda = OnCuda::kYes,
                                               .apply = with_sparse_layers};

}  // namespace neap
