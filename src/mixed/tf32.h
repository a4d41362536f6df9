// Products of f32 by a GPU's TF32: operands rounded to 10 bits of mantissa, sums in f32 (--compute tf32).
#pragma once

#include <span>
#include <string_view>

#include "graph/graph.h"

namespace neap {

// Whose kernels on CUDA take their products so where a node asks for it (ops/product_math.h).
std::span<const std::string_view> ops_of_tf32();

// The same program; every such product of f32, forward and backward, asks for TF32. It comes behind autodiff, so that
// gradients need not know of it, and before optimizations, which carry it along.
Graph with_tf32(Graph graph);

}  // namespace neap
