// Epilogues of convolutions, image by image: batch norm with statistics that are known (in inference, or frozen),
// activation, residual and elementwise chains run on the images that the convolution has just made; in backward what
// follows the gradient for its input.
#pragma once

#include "optimize/optimization.h"

namespace neap {

Graph with_conv_rows(const Graph& graph, const Where& where = {});

inline constexpr Optimization kConvRows = {
    .name = "conv-epilogue",
    .what = "what follows a convolution runs on the images that it has just made",
    .makes = "conv_rows",
    .strategy = Strategy::kMemory,
    .is_bitwise = true,
    .apply = with_conv_rows};

}  // namespace neap
