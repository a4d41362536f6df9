// What kernels of batch norm have in common that take bf16, eight channels a thread.
#pragma once

#include "ops/reduce/columns8.cuh"

namespace neap::ops {

// Of each of eight columns, the sum and the sum of squares.
struct SquaresTerm {
  const Bf16* x;
  std::int64_t c;
  __device__ auto at(std::int64_t column) const {
    return [*this, column](std::int64_t row, float(&sums)[2][kVector]) {
      float v[kVector];
      load8(x + row * c + column, v);
      for (int i = 0; i < kVector; ++i) {
        sums[0][i] += v[i];
        sums[1][i] = fmaf(v[i], v[i], sums[1][i]);
      }
    };
  }
};

__device__ inline uint4 load_raw(const Bf16* p) { return *reinterpret_cast<const uint4*>(p); }
__device__ inline void widen_raw(const uint4& raw, float (&v)[kVector]) {
  load8(reinterpret_cast<const Bf16*>(&raw), v);
}

inline constexpr int kBatch = 4;  // rows that a thread has read before it writes any: what it writes may lie there

}  // namespace neap::ops
