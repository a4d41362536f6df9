// Reverse-mode differentiation as graph code: backward nodes are ordinary nodes, appended behind the forward ones.
#pragma once

#include <map>

#include "graph/graph.h"

namespace neap {

// Gradients of `loss` (one element) with respect to each tensor in `wrt`; a tensor on which the loss does not depend
// is missing from the result. Appended nodes have Phase::kBackward and the layer of the node that they differentiate.
std::map<TensorId, Value> differentiate(Builder& g, Value loss, const std::vector<TensorId>& wrt);

}  // namespace neap
