// Linear layers beside gelu (by tanh) as one node with it, for devices whose products have gelu as an epilogue or that
// make one pass of what stands behind a product (ops/linear_gelu).
#pragma once

#include "graph/graph.h"

namespace neap {

// A forward graph: gelu(linear(x)) becomes linear_gelu where nobody else reads what goes into gelu.
Graph with_gelu_layers(const Graph& graph);

// A step: backward through linear(gelu(h)) becomes gelu_linear_grad, which also makes gelu(h) again for the gradient of
// that layer's weight, and the sums for the gradient of the bias in front of gelu.
Graph with_gelu_gradients(const Graph& graph);

}  // namespace neap
