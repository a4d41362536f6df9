// The layers as a chain: a dynamic program over where to checkpoint and what each layer keeps, segments within segments
// included (in the manner of rotor: Beaumont et al., "Optimal re-materialization strategies for heterogeneous chains").
#pragma once

#include <span>
#include <vector>

#include "policy/layers.h"

namespace neap {

// What a layer may keep for its backward, and what that costs.
struct LayerOption {
  std::vector<TensorId> kept;
  std::int64_t bytes = 0;
  double ms = 0;  // of what is computed again inside of the layer
};

// At most eight, none both larger and slower than another; the first keeps the most. Tensors that are dear to compute
// and small are kept first.
std::vector<LayerOption> options_of(const Recompute& r, const Layer& layer);

// The best ways through the chain for memory from the least to the most, as the program sees it: what the planner makes
// of them differs (tensors share bytes, kernels need workspaces), so the caller judges them.
std::vector<Retention> chain_retentions(const Recompute& r, std::span<const Layer> layers);

}  // namespace neap
