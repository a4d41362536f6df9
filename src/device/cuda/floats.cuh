// Floats of two kinds, f32 and bf16, eight at a time: arithmetic is in f32, memory in whatever a tensor has.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "neap/dtype.h"

namespace neap {

using Bf16 = __nv_bfloat16;

__device__ inline float widen(float x) { return x; }
__device__ inline float widen(Bf16 x) { return __bfloat162float(x); }
template <class T>
__device__ T narrow(float x);
template <>
__device__ inline float narrow<float>(float x) {
  return x;
}
template <>
__device__ inline Bf16 narrow<Bf16>(float x) {
  return __float2bfloat16_rn(x);
}

inline constexpr int kVector = 8;

__device__ inline void load8(const float* p, float (&v)[kVector]) {
  const float4 a = reinterpret_cast<const float4*>(p)[0];
  const float4 b = reinterpret_cast<const float4*>(p)[1];
  v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
  v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
}
__device__ inline void load8(const Bf16* p, float (&v)[kVector]) {
  const uint4 bits = *reinterpret_cast<const uint4*>(p);
  const std::uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    v[2 * i] = __uint_as_float(words[i] << 16);
    v[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000U);
  }
}
__device__ inline void store8(float* p, const float (&v)[kVector]) {
  reinterpret_cast<float4*>(p)[0] = {v[0], v[1], v[2], v[3]};
  reinterpret_cast<float4*>(p)[1] = {v[4], v[5], v[6], v[7]};
}
// Two floats as two bf16, the first in the lower half.
__device__ inline std::uint32_t pack2(float low, float high) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&both);
}
__device__ inline void store8(Bf16* p, const float (&v)[kVector]) {
  *reinterpret_cast<uint4*>(p) = {pack2(v[0], v[1]), pack2(v[2], v[3]), pack2(v[4], v[5]), pack2(v[6], v[7])};
}

inline bool is_16_aligned(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; }

// f is a functor of one element, out = f(i, values of the inputs): eight at a time where addresses allow it. N inputs
// of types A (and B), one output of type T.
template <class T, class A, class F>
__global__ void map1_kernel(std::int64_t n, T* out, const A* a, F f, bool by_vector) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t whole = by_vector ? n / kVector : 0;
  for (std::int64_t i = first; i < whole; i += stride) {
    float x[kVector];
    load8(a + i * kVector, x);
#pragma unroll
    for (int k = 0; k < kVector; ++k) x[k] = f(x[k]);
    store8(out + i * kVector, x);
  }
  for (std::int64_t i = whole * kVector + first; i < n; i += stride) out[i] = narrow<T>(f(widen(a[i])));
}

template <class T, class A, class B, class F>
__global__ void map2_kernel(std::int64_t n, T* out, const A* a, const B* b, F f, bool by_vector) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t whole = by_vector ? n / kVector : 0;
  for (std::int64_t i = first; i < whole; i += stride) {
    float x[kVector];
    float y[kVector];
    load8(a + i * kVector, x);
    load8(b + i * kVector, y);
#pragma unroll
    for (int k = 0; k < kVector; ++k) x[k] = f(x[k], y[k]);
    store8(out + i * kVector, x);
  }
  for (std::int64_t i = whole * kVector + first; i < n; i += stride) {
    out[i] = narrow<T>(f(widen(a[i]), widen(b[i])));
  }
}

}  // namespace neap
