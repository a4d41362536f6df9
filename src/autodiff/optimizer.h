// Optimizers as graph nodes: one update a parameter, behind its gradient, so that gradients are packed like everything
// else.
#pragma once

#include <array>
#include <map>
#include <string_view>

#include "graph/graph.h"
#include "neap/train.h"

namespace neap {

// f32 {lr, momentum or beta1, beta2, epsilon, weight decay, 1 - beta1^t, 1 - beta2^t, gradient scale}
inline constexpr std::string_view kHyperInput = "step.hyper";
using Hyper = std::array<float, 8>;

// UserError when the name or a number makes no sense.
void check(const OptimizerOptions& options);

// Appends state and update nodes for every gradient; with clipping also the global norm.
void append_updates(Builder& g, const std::map<TensorId, Value>& gradients, const OptimizerOptions& options);

// What kHyperInput holds in step `step` (the first is 1).
Hyper hyper_at(std::int64_t step, double lr, const OptimizerOptions& options);

}  // namespace neap
