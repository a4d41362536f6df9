// Where the inputs of a broadcast lie for one element of the output: the slow way, for reference kernels.
#pragma once

#include <array>

#include "ops/elementwise/broadcast_plan.h"

namespace neap::ops {

inline std::array<std::int64_t, BroadcastPlan::kMaxInputs> broadcast_offsets(const BroadcastPlan& p, std::int64_t at) {
  std::array<std::int64_t, BroadcastPlan::kMaxInputs> offsets{};
  for (int a = p.rank - 1; a >= 0; --a) {
    const std::int64_t index = at % p.dims[a];
    at /= p.dims[a];
    for (int i = 0; i < p.inputs; ++i) offsets[static_cast<std::size_t>(i)] += index * p.strides[i][a];
  }
  return offsets;
}

}  // namespace neap::ops
