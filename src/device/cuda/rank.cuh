// Ranks among the threads and elements of a block: what came before, and which key the n-th largest is. All counts are
// of integers, in any order the same.
#pragma once

#include "device/cuda/launch.cuh"

namespace neap {

struct Prefix {
  int before;  // sum over the threads before this one
  int all;     // over the whole block
};

// `scratch` has one place a warp, and is free again afterwards.
__device__ inline Prefix block_prefix(int own, int* scratch) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  int sum = own;
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(0xffffffffU, sum, step);
    if (lane >= step) sum += other;
  }
  if (lane == 31) scratch[warp] = sum;
  __syncthreads();
  int before = 0;
  int all = 0;
  for (int w = 0; w < static_cast<int>(blockDim.x) / 32; ++w) {
    if (w < warp) before += scratch[w];
    all += scratch[w];
  }
  __syncthreads();
  return {before + sum - own, all};
}

// The largest number that at least `count` of the n keys (unsigned) reach, bit by bit from `highest`. All threads of
// the block get the same result; `scratch` as above.
template <class Key, class F>
__device__ Key threshold(std::int64_t n, std::int64_t count, Key highest, F key, long long* scratch) {
  Key found = 0;
  for (Key bit = highest; bit != 0; bit >>= 1) {
    const Key tried = found | bit;
    long long reach = 0;
    for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) reach += key(i) >= tried ? 1 : 0;
    if (block_reduce(reach, Sum(), scratch) >= count) found = tried;
  }
  return found;
}

}  // namespace neap
