// Quantization: layers, products with a weight and convolutions run on 8-bit integers (ops/int8). Weights are made so
// once (optimize/once.h) and take a quarter of the bytes.
#pragma once

#include "optimize/optimization.h"

namespace neap {

Graph with_int8_products(const Graph& graph, const Where& where = {});

inline constexpr Optimization kInt8Products = {
    .name = "int8",
    .what = "layers and convolutions on 8-bit integers",
    .makes = "linear_int8",
    .strategy = Strategy::kCompute,
    .is_bitwise = false,
    .on_cuda = OnCuda::kYes,
    .is_lossy = true,
    .not_for_training =
        "gradients need more than 8 bits; what training stores in int8 comes by --policy int8 or "
        "--tolerance",
    .apply = with_int8_products};

}  // namespace neap
