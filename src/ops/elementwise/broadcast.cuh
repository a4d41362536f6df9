// Where the inputs of a broadcast lie for one element of the output.
#pragma once

#include <cstdint>

#include "ops/elementwise/broadcast_plan.h"

namespace neap::ops {

template <int N>
struct BroadcastPlaces {
  std::int64_t at[N];
};

template <int N>
__device__ BroadcastPlaces<N> broadcast_places(const BroadcastPlan& p, std::int64_t i) {
  BroadcastPlaces<N> out;
  if (p.rank == 1) {
    for (int k = 0; k < N; ++k) out.at[k] = i * p.strides[k][0];
    return out;
  }
  for (int k = 0; k < N; ++k) out.at[k] = 0;
  if (p.count < (std::int64_t{1} << 31)) {  // division of 32 bits takes a fraction of that of 64
    auto rest = static_cast<std::uint32_t>(i);
    for (int a = p.rank - 1; a >= 0; --a) {
      const auto size = static_cast<std::uint32_t>(p.dims[a]);
      const std::uint32_t outer = rest / size;
      for (int k = 0; k < N; ++k) out.at[k] += static_cast<std::int64_t>(rest - outer * size) * p.strides[k][a];
      rest = outer;
    }
    return out;
  }
  for (int a = p.rank - 1; a >= 0; --a) {
    for (int k = 0; k < N; ++k) out.at[k] += i % p.dims[a] * p.strides[k][a];
    i /= p.dims[a];
  }
  return out;
}

}  // namespace neap::ops
