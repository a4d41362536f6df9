// The gradient of a layer norm's input and the sum that it is added to (the residual's gradient) in one pass over the
// rows. The gradients of scale and bias, sums over all rows, are taken in the same pass as before.
#pragma once

#include "optimize/optimization.h"

namespace neap {

Graph with_norm_gradient(const Graph& graph, const Where& where = {});

inline constexpr Optimization kNormGradient = {.name = "norm-gradient",
                                               .what = "a norm's gradient is added to the residual's row by row",
                                               .makes = "layer_norm_grad_sum",
                                               .strategy = Strategy::kMemory,
                                               .is_bitwise = true,
                                               .apply = with_norm_gradient};

}  // namespace neap
