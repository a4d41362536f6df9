// A norm with what surrounds it, row by row: the residual or product before it and the product behind it (in inference
// with whole groups that other passes have made there), so that what it makes never exists as a whole. In training it
// runs with the product behind it, and once more in backward, where the product's weight gradient reads it, as plans do
// with norms anyway (decision 0004).
#pragma once

#include "optimize/optimization.h"

namespace neap {

Graph with_norm_rows(const Graph& graph, const Where& where = {});

inline constexpr Optimization kNormRows = {.name = "norm",
                                           .what = "norms run with the residual before and the product behind them",
                                           .makes = "norm_rows",
                                           .strategy = Strategy::kMemory,
                                           .is_bitwise = true,
                                           .apply = with_norm_rows};

}  // namespace neap
