// Positions as a kernel finds them.
#pragma once

#include "device/cuda/fault.cuh"
#include "ops/gather/positions.h"

namespace neap::ops {

inline constexpr int kMostAxes = 8;
inline constexpr const char* kDeep = "at most eight axes";

struct DevicePositions {
  const void* indices;
  bool wide;
  FaultNote fault;
  int rank;
  std::int64_t sizes[kMostAxes], strides[kMostAxes], entry_strides[kMostAxes];
  std::int64_t slice, depth, batch_axes, entries_a_batch, batch_stride;
  int axis;

  DevicePositions(const Positions& p, const void* indices_, int op)
      : indices(indices_),
        wide(p.wide),
        fault(op),
        rank(static_cast<int>(p.sizes.size())),
        slice(p.slice),
        depth(p.depth),
        batch_axes(p.batch_axes),
        entries_a_batch(p.entries_a_batch),
        batch_stride(p.batch_stride),
        axis(p.axis) {
    for (int i = 0; i < rank; ++i) {
      const auto at = static_cast<std::size_t>(i);
      sizes[i] = p.sizes[at];
      strides[i] = p.strides[at];
      entry_strides[i] = p.axis < 0 ? 0 : p.entry_strides[at];
    }
  }

  // An index out of range is noted for the host, and read as 0.
  __device__ std::int64_t index(std::int64_t place, std::int64_t along) const {
    const std::int64_t raw =
        wide ? static_cast<const std::int64_t*>(indices)[place] : static_cast<const std::int32_t*>(indices)[place];
    const std::int64_t size = sizes[along];
    return raw >= -size && raw < size ? (raw < 0 ? raw + size : raw) : fault(raw, size);
  }

  // First element of entry t.
  __device__ std::int64_t at(std::int64_t t) const {
    std::int64_t sum = 0;
    if (axis < 0) {
      for (std::int64_t k = 0; k < depth; ++k) sum += index(t * depth + k, batch_axes + k) * strides[batch_axes + k];
      return sum + t / entries_a_batch * batch_stride;
    }
    std::int64_t left = t;
    for (int i = 0; i < rank; ++i) {
      const std::int64_t coordinate = left / entry_strides[i];
      left %= entry_strides[i];
      sum += (i == axis ? index(t, i) : coordinate) * strides[i];
    }
    return sum;
  }
};

}  // namespace neap::ops
