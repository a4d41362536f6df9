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

// f32[1]: 0 for the first part of a batch, else 1. Only where batches have parts.
inline constexpr std::string_view kPartInput = "step.part";

// Appends state and update nodes for every gradient; with clipping also the global norm. With `parts` above 1 gradients
// are summed up over the runs of so many parts of a batch, and updates wait for the last: see hyper_at().
void append_updates(Builder& g, const std::map<TensorId, Value>& gradients, const OptimizerOptions& options,
                    std::int64_t parts = 1);

// What kHyperInput holds in step `step` (the first is 1). `scale` of the gradient: 1 over the parts of a batch for the
// last of them, 0 for the others, which change nothing.
Hyper hyper_at(std::int64_t step, double lr, const OptimizerOptions& options, double scale = 1);

}  // namespace neap
