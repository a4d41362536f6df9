// Elementwise functions over tensors of f32 or bf16.
#pragma once

#include "device/cuda/floats.cuh"
#include "device/cuda/launch.cuh"

namespace neap {

inline unsigned map_blocks(std::int64_t n) { return blocks_for((n + kVector - 1) / kVector); }

// out[i] = f(a[i])
template <class T, class A, class F>
void map1(const char* name, std::int64_t n, T* out, const A* a, F f, cudaStream_t stream) {
  if (n == 0) return;
  const bool by_vector = is_16_aligned(out) && is_16_aligned(a);
  map1_kernel<<<by_vector ? map_blocks(n) : blocks_for(n), kThreads, 0, stream>>>(n, out, a, f, by_vector);
  check_launch(name);
}

// out[i] = f(a[i], b[i])
template <class T, class A, class B, class F>
void map2(const char* name, std::int64_t n, T* out, const A* a, const B* b, F f, cudaStream_t stream) {
  if (n == 0) return;
  const bool by_vector = is_16_aligned(out) && is_16_aligned(a) && is_16_aligned(b);
  map2_kernel<<<by_vector ? map_blocks(n) : blocks_for(n), kThreads, 0, stream>>>(n, out, a, b, f, by_vector);
  check_launch(name);
}

}  // namespace neap
