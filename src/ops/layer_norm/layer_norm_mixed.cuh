// Layer norm over rows whose width is a multiple of 8, of f32 or bf16: a warp a row, eight elements a lane at a time.
#pragma once

#include "device/cuda/floats.cuh"
#include "device/cuda/launch.cuh"
#include "ops/layer_norm/row_norm.h"

namespace neap::ops {

inline constexpr int kRowsABlock = 8;
inline constexpr int kMostChunks = 8;  // of 256 elements that a warp keeps in registers

__device__ inline float warp_sum(float v) {
  for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(0xffffffffU, v, step);
  return v;
}

// Where rows come from: a tensor, or the sum of two, which is then kept.
template <class X>
struct RowsOf {
  const X* x;
  __device__ void load(std::int64_t at, float (&v)[kVector]) const { load8(x + at, v); }
};
template <class B>
struct RowsOfSum {
  const float* a;
  const B* b;
  float* sum;  // may take the place of a
  __device__ void load(std::int64_t at, float (&v)[kVector]) const {
    float other[kVector];
    load8(a + at, v);
    load8(b + at, other);
    for (int i = 0; i < kVector; ++i) v[i] += other[i];
    store8(sum + at, v);
  }
};

// C: chunks of a row.
template <int C, class Rows, class Y>
__global__ void __launch_bounds__(256)
    norm_kernel(RowNorm s, Rows rows, const float* scale, const float* bias, Y* y, float* mean, float* rstd) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kRowsABlock + threadIdx.y;
  if (row >= s.rows) return;
  const auto width = static_cast<float>(s.width);
  float v[C][kVector];
  float sum = 0;
#pragma unroll
  for (int k = 0; k < C; ++k) {
    const std::int64_t at = (k * 32 + static_cast<int>(threadIdx.x)) * kVector;
    if (at >= s.width) break;
    rows.load(row * s.width + at, v[k]);
    for (int i = 0; i < kVector; ++i) sum += v[k][i];
  }
  const float centre = warp_sum(sum) / width;
  float squares = 0;
#pragma unroll
  for (int k = 0; k < C; ++k) {
    if ((k * 32 + static_cast<int>(threadIdx.x)) * kVector >= s.width) break;
    for (int i = 0; i < kVector; ++i) squares = fmaf(v[k][i] - centre, v[k][i] - centre, squares);
  }
  const float over_deviation = 1 / sqrtf(warp_sum(squares) / width + s.epsilon);
#pragma unroll
  for (int k = 0; k < C; ++k) {
    const std::int64_t at = (k * 32 + static_cast<int>(threadIdx.x)) * kVector;
    if (at >= s.width) break;
    float a[kVector];
    float b[kVector] = {};
    if (scale != nullptr) load8(scale + at, a);
    if (bias != nullptr) load8(bias + at, b);
    for (int i = 0; i < kVector; ++i) {
      const float normal = (v[k][i] - centre) * over_deviation;
      v[k][i] = (scale != nullptr ? normal * a[i] : normal) + b[i];
    }
    store8(y + row * s.width + at, v[k]);
  }
  if (threadIdx.x == 0 && mean != nullptr) mean[row] = centre;
  if (threadIdx.x == 0 && rstd != nullptr) rstd[row] = over_deviation;
}

// kAdds: dx is added to something at once instead of being written.
template <class D, class X, bool kAdds = false>
struct NormGrad {
  RowNorm s;
  const D* dy;
  const X* x;
  const float *mean, *rstd, *scale;
  X* dx;                         // null: not wanted
  const float* other = nullptr;  // kAdds: sum = other + dx, and the same rounded, unless it is null
  float* sum = nullptr;
  Bf16* narrow_sum = nullptr;
  float* partial = nullptr;  // [2][blocks][width]: sums for scale and bias; null: not wanted
};

template <class D, class X, bool kAdds>
__device__ void put_dx(const NormGrad<D, X, kAdds>& t, std::int64_t at, float (&dx)[kVector]) {
  if constexpr (!kAdds) {
    store8(t.dx + at, dx);
  } else {
#pragma unroll
    for (int half = 0; half < 2; ++half) {  // in halves: registers are short here
      float* const v = dx + 4 * half;
      const float4 other = *reinterpret_cast<const float4*>(t.other + at + 4 * half);
      v[0] += other.x, v[1] += other.y, v[2] += other.z, v[3] += other.w;
      *reinterpret_cast<float4*>(t.sum + at + 4 * half) = {v[0], v[1], v[2], v[3]};
    }
    if (t.narrow_sum != nullptr) store8(t.narrow_sum + at, dx);
  }
}

// One row: dx = rstd (g - mean(g) - normal mean(g normal)), g = dy scale; and what it adds to the parameters' sums.
template <int C, class D, class X, bool kAdds>
__device__ void norm_grad_row(const NormGrad<D, X, kAdds>& t, std::int64_t row, float (&dscale)[C][kVector],
                              float (&dbias)[C][kVector]) {
  const auto width = static_cast<float>(t.s.width);
  const float centre = t.mean[row];
  const float over_deviation = t.rstd[row];
  float g[C][kVector];
  float normal[C][kVector];
#pragma unroll
  for (int k = 0; k < C; ++k) {
    const std::int64_t at = (k * 32 + static_cast<int>(threadIdx.x)) * kVector;
    if (at >= t.s.width) break;
    load8(t.dy + row * t.s.width + at, g[k]);
    load8(t.x + row * t.s.width + at, normal[k]);
  }
  float sum = 0;
  float product = 0;
#pragma unroll
  for (int k = 0; k < C; ++k) {
    const std::int64_t at = (k * 32 + static_cast<int>(threadIdx.x)) * kVector;
    if (at >= t.s.width) break;
    float a[kVector];
    if (t.scale != nullptr) load8(t.scale + at, a);
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      normal[k][i] = (normal[k][i] - centre) * over_deviation;
      dscale[k][i] = fmaf(g[k][i], normal[k][i], dscale[k][i]);
      dbias[k][i] += g[k][i];
      if (t.scale != nullptr) g[k][i] *= a[i];
      sum += g[k][i];
      product = fmaf(g[k][i], normal[k][i], product);
    }
  }
  if (!kAdds && t.dx == nullptr) return;
  sum = warp_sum(sum) / width;
  product = warp_sum(product) / width;
#pragma unroll
  for (int k = 0; k < C; ++k) {
    const std::int64_t at = (k * 32 + static_cast<int>(threadIdx.x)) * kVector;
    if (at >= t.s.width) break;
#pragma unroll
    for (int i = 0; i < kVector; ++i) g[k][i] = over_deviation * (g[k][i] - sum - normal[k][i] * product);
    put_dx(t, row * t.s.width + at, g[k]);
  }
}

__device__ inline void prefetch(const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

// A warp has too few registers to wait for more than one row: what it needs next comes to the cache meanwhile.
template <int C, class D, class X, bool kAdds>
__device__ void prefetch_row(const NormGrad<D, X, kAdds>& t, std::int64_t row) {
#pragma unroll
  for (int k = 0; k < C; ++k) {
    const std::int64_t at = (k * 32 + static_cast<int>(threadIdx.x)) * kVector;
    if (at >= t.s.width || row >= t.s.rows) break;
    prefetch(t.dy + row * t.s.width + at);
    prefetch(t.x + row * t.s.width + at);
    if (kAdds) prefetch(t.other + row * t.s.width + at);
  }
}

// The warps' sums of a block, added up in their order.
template <int C>
__device__ void store_partial(const float (&sums)[C][kVector], std::int64_t width, float* shared, float* partial) {
  for (int w = 0; w < kRowsABlock; ++w) {
    if (static_cast<int>(threadIdx.y) == w) {
#pragma unroll
      for (int k = 0; k < C; ++k) {
        float* const at = shared + (k * 32 + static_cast<int>(threadIdx.x)) * kVector;
        float total[kVector] = {};
        if (w > 0) load8(at, total);
#pragma unroll
        for (int i = 0; i < kVector; ++i) total[i] += sums[k][i];
        store8(at, total);
      }
    }
    __syncthreads();
  }
  for (std::int64_t c = threadIdx.y * 32 + threadIdx.x; c < width; c += 32 * kRowsABlock) partial[c] = shared[c];
  __syncthreads();
}

// Blocks that the rows are dealt out to, whatever the card: sums depend on the shape alone.
inline constexpr std::int64_t kGradBlocks = 264;
inline std::int64_t grad_blocks(const RowNorm& s) {
  const std::int64_t blocks = (s.rows + kRowsABlock - 1) / kRowsABlock;
  return blocks < kGradBlocks ? blocks : kGradBlocks;
}

// dx and the parameters' sums in one pass. dx may take the place of dy or x: a warp has read a row before it writes it.
template <int C, class D, class X, bool kAdds>
__global__ void __launch_bounds__(256, C <= 3 ? 2 : 1)
    norm_grad_kernel(const __grid_constant__ NormGrad<D, X, kAdds> t) {
  __shared__ __align__(16) float shared[C * 256];
  float dscale[C][kVector] = {};
  float dbias[C][kVector] = {};
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kRowsABlock;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kRowsABlock + threadIdx.y; row < t.s.rows;
       row += stride) {
    prefetch_row<C>(t, row + stride);
    norm_grad_row<C>(t, row, dscale, dbias);
  }
  if (t.partial == nullptr) return;
  float* const first = t.partial + blockIdx.x * t.s.width;
  store_partial<C>(dscale, t.s.width, shared, first);
  store_partial<C>(dbias, t.s.width, shared, first + gridDim.x * t.s.width);
}

// 32 columns a block; its warps take the partial sums in turn.
static __global__ void __launch_bounds__(256)
    norm_parameters_kernel(std::int64_t parts, std::int64_t width, const float* partial, float* dscale, float* dbias) {
  __shared__ double shared[kRowsABlock][32];
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * 32 + threadIdx.x;
  float* const out = blockIdx.y == 0 ? dscale : dbias;
  double sum = 0;
  if (column < width && out != nullptr) {
    const float* from = partial + blockIdx.y * parts * width + column;
#pragma unroll 8
    for (std::int64_t p = threadIdx.y; p < parts; p += kRowsABlock) sum += static_cast<double>(from[p * width]);
  }
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= width || out == nullptr) return;
  double total = 0;
  for (int w = 0; w < kRowsABlock; ++w) total += shared[w][threadIdx.x];
  out[column] = static_cast<float>(total);
}

// Rows that a warp can hold.
inline bool fits_a_warp(const RowNorm& s) {
  return s.rows > 0 && s.width % kVector == 0 && s.width <= kMostChunks * 32 * kVector;
}

template <class D, class X, bool kAdds>
void run_norm_grad(const NormGrad<D, X, kAdds>& t, float* dscale, float* dbias, cudaStream_t stream) {
  const std::int64_t parts = grad_blocks(t.s);
  const auto kernel =
      t.s.width <= 3 * 256 ? norm_grad_kernel<3, D, X, kAdds> : norm_grad_kernel<kMostChunks, D, X, kAdds>;
  kernel<<<static_cast<unsigned>(parts), dim3(32, kRowsABlock), 0, stream>>>(t);
  check_launch("layer_norm_grad");
  if (t.partial == nullptr) return;
  norm_parameters_kernel<<<dim3(static_cast<unsigned>((t.s.width + 31) / 32), 2), dim3(32, kRowsABlock), 0, stream>>>(
      parts, t.s.width, t.partial, dscale, dbias);
  check_launch("layer_norm_grad");
}

}  // namespace neap::ops
