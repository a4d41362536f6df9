// Counting in order over the threads of a block.
#pragma once

#include "device/cuda/launch.cuh"

namespace neap {

// How many the threads before this one have, and how many all of them. `scratch` has one place a warp.
__device__ inline int count_before(int own, int* scratch, int& all) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  int sum = own;
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(0xffffffffU, sum, step);
    if (lane >= step) sum += other;
  }
  if (lane == 31) scratch[warp] = sum;
  __syncthreads();
  int before = 0;
  all = 0;
  for (int w = 0; w < warps; ++w) {
    if (w < warp) before += scratch[w];
    all += scratch[w];
  }
  __syncthreads();
  return before + sum - own;
}

}  // namespace neap
