// Nodes that multiply with a weight, however they spell it: what passes that prepare weights look for.
#pragma once

#include <optional>

#include "graph/graph.h"

namespace neap {

// y = x W^T + bias.
struct WeightedProduct {
  TensorId x, weight, bias;  // bias: a default id where there is none
  bool transposed = false;   // the weight is [in, out] instead of [out, in]
  std::int64_t in = 0, out = 0;
};

// State of f32 and fixed size, or made of such, once (optimize/once.h).
bool is_weight(const Graph& graph, TensorId id);

// A linear, matmul or gemm whose second operand is a weight and a matrix.
std::optional<WeightedProduct> weighted_product(const Graph& graph, const Node& node);

// Only forward: nothing is trained here, so weights do not change.
bool is_inference(const Graph& graph);

}  // namespace neap
