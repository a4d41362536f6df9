// Composite layers (a convolution with its norm and activation, a residual block, attention, feed-forward, a recurrent
// chunk), found from the graph itself: what lies between two places where the fewest tensors of forward cross, at least
// one of them dear to compute. The unit of every-layer, sqrt, and of the agent.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "policy/recompute.h"

namespace neap {

struct Layer {
  std::string name;
  std::vector<NodeId> nodes;       // of forward, in program order; views are not among them
  std::vector<TensorId> boundary;  // made in it or before, read by a layer behind it: what a checkpoint keeps
  std::int64_t boundary_bytes = 0;
  std::int64_t kept_bytes = 0;  // that store-all keeps of it
  double ms = 0;                // to compute it again
  double backward_ms = 0;
};

std::vector<Layer> find_layers(const Recompute& r);

// How a layer is checkpointed.
inline constexpr int kStoreAll = 0;
// 1: its boundary is kept and its inside computed again; N: one boundary in N neighbours with the same N is kept.
using Granularities = std::vector<int>;  // one a layer

Retention retention_of(const Recompute& r, std::span<const Layer> layers, std::span<const int> granularities);

// Layers [first, last] are a segment that is computed again when its backward begins: its boundary is not set here.
void drop_inside(const Recompute& r, std::span<const Layer> segment, Retention& retention);

// The first position at which backward reads anything that these layers made.
Position backward_begins(const Recompute& r, std::span<const Layer> layers);

}  // namespace neap
