// How kernels are launched and how the threads of a block add up: always in the same order.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "device/cuda/cuda.h"

namespace neap {

inline constexpr int kThreads = 256;
inline constexpr std::int64_t kMostBlocks = 1 << 16;

// Blocks for n elements, one a thread; more elements than that are taken in turns (grid stride).
inline unsigned blocks_for(std::int64_t n, int threads = kThreads) {
  const std::int64_t blocks = (n + threads - 1) / threads;
  return static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks);
}

template <class F>
__global__ void each_kernel(std::int64_t n, F f) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride) f(i);
}

// f(i) for every i < n, in any order. Not from within a lambda whose init-captures f captures: nvcc 13.0 then launches
// a function that was never registered ("invalid device function"), and such an object asks for `cudaLaunchKernel`
// itself.
template <class F>
void each(const char* name, std::int64_t n, cudaStream_t stream, F f) {
  if (n == 0) return;
  each_kernel<<<blocks_for(n), kThreads, 0, stream>>>(n, f);
  check_launch(name);
}

struct Sum {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Largest {  // NaN wins
  __device__ float operator()(float a, float b) const { return a > b || a != a ? a : b; }
};

// All threads of the block get the same result. `scratch` has one place a warp, and is free again afterwards.
template <class T, class Op>
__device__ T block_reduce(T value, Op op, T* scratch) {
  for (int step = 16; step > 0; step /= 2) value = op(value, __shfl_xor_sync(0xffffffffU, value, step));
  const int warps = static_cast<int>(blockDim.x) / 32;
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  value = scratch[0];
  for (int w = 1; w < warps; ++w) value = op(value, scratch[w]);
  __syncthreads();
  return value;
}

}  // namespace neap
