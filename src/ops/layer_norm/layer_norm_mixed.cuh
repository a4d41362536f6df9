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

// What a row's gradient is added to, read before it is known.
template <int C, class D, class X, bool kAdds>
struct OtherRow {
  float v[kAdds ? C : 1][kVector];

  __device__ void load(const NormGrad<D, X, kAdds>& t, std::int64_t row) {
    if constexpr (kAdds) {
#pragma unroll
      for (int k = 0; k < C; ++k) {
        const std::int64_t at = (k * 32 + static_cast<int>(threadIdx.x)) * kVector;
        if (at < t.s.width) load8(t.other + row * t.s.width + at, v[k]);
      }
    }
  }
  __device__ void put(const NormGrad<D, X, kAdds>& t, int k, std::int64_t at, float (&dx)[kVector]) const {
    if constexpr (!kAdds) {
      store8(t.dx + at, dx);
    } else {
      for (int i = 0; i < kVector; ++i) dx[i] += v[k][i];
      store8(t.sum + at, dx);
      if (t.narrow_sum != nullptr) store8(t.narrow_sum + at, dx);
    }
  }
};

// A warp's sums for scale and bias, in shared memory: registers are for rows. A lane has its own places, four
// neighbours in each.
template <int C>
struct WarpSums {
  float4* own;  // of the warp: [C][scale, bias][half][lane]

  static constexpr int kBytes = C * 2 * 2 * 32 * kRowsABlock * static_cast<int>(sizeof(float4));
  __device__ WarpSums(float4* all, unsigned warp) : own(all + warp * (C * 2 * 2 * 32)) {}
  __device__ float4* at(int k, int which, int half) const { return own + ((k * 2 + which) * 2 + half) * 32; }

  __device__ void clear() const {
    for (int i = 0; i < C * 2 * 2; ++i) own[i * 32 + threadIdx.x] = {};
  }
  __device__ void add(int k, const float (&g)[kVector], const float (&normal)[kVector]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float* const d = g + 4 * half;
      const float* const n = normal + 4 * half;
      float4& scale = at(k, 0, half)[threadIdx.x];
      float4& bias = at(k, 1, half)[threadIdx.x];
      const float4 s = scale;
      const float4 b = bias;
      scale = {fmaf(d[0], n[0], s.x), fmaf(d[1], n[1], s.y), fmaf(d[2], n[2], s.z), fmaf(d[3], n[3], s.w)};
      bias = {b.x + d[0], b.y + d[1], b.z + d[2], b.w + d[3]};
    }
  }
  __device__ float of(std::int64_t column, int which) const {
    const int in_chunk = static_cast<int>(column % 256);
    const float4* const four = at(static_cast<int>(column / 256), which, in_chunk / 4 % 2) + in_chunk / kVector;
    return reinterpret_cast<const float*>(four)[in_chunk % 4];
  }
};

// One row: dx = rstd (g - mean(g) - normal mean(g normal)), g = dy scale; and what it adds to the parameters' sums.
template <int C, class D, class X, bool kAdds>
__device__ void norm_grad_row(const NormGrad<D, X, kAdds>& t, std::int64_t row, const WarpSums<C>& sums) {
  const auto width = static_cast<float>(t.s.width);
  const float centre = t.mean[row];
  const float over_deviation = t.rstd[row];
  float g[C][kVector];
  float normal[C][kVector];
  OtherRow<C, D, X, kAdds> other;
#pragma unroll
  for (int k = 0; k < C; ++k) {
    const std::int64_t at = (k * 32 + static_cast<int>(threadIdx.x)) * kVector;
    if (at >= t.s.width) break;
    load8(t.dy + row * t.s.width + at, g[k]);
    load8(t.x + row * t.s.width + at, normal[k]);
  }
  other.load(t, row);
  float sum = 0;
  float product = 0;
#pragma unroll
  for (int k = 0; k < C; ++k) {
    const std::int64_t at = (k * 32 + static_cast<int>(threadIdx.x)) * kVector;
    if (at >= t.s.width) break;
    float a[kVector];
    if (t.scale != nullptr) load8(t.scale + at, a);
#pragma unroll
    for (int i = 0; i < kVector; ++i) normal[k][i] = (normal[k][i] - centre) * over_deviation;
    if (t.partial != nullptr) sums.add(k, g[k], normal[k]);
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
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
    other.put(t, k, row * t.s.width + at, g[k]);
  }
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
  extern __shared__ float4 all_sums[];
  const WarpSums<C> sums(all_sums, threadIdx.y);
  sums.clear();
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kRowsABlock;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kRowsABlock + threadIdx.y; row < t.s.rows;
       row += stride) {
    norm_grad_row<C>(t, row, sums);
  }
  if (t.partial == nullptr) return;
  __syncthreads();
  // The warps' sums of a block, added up in their order.
  float* const first = t.partial + blockIdx.x * t.s.width;
  for (std::int64_t c = threadIdx.y * 32 + threadIdx.x; c < t.s.width; c += 32 * kRowsABlock) {
    for (int which = 0; which < 2; ++which) {
      float total = 0;
      for (unsigned w = 0; w < kRowsABlock; ++w) total += WarpSums<C>(all_sums, w).of(c, which);
      first[which * gridDim.x * t.s.width + c] = total;
    }
  }
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

template <int C, class D, class X, bool kAdds>
void launch_norm_grad(const NormGrad<D, X, kAdds>& t, unsigned blocks, cudaStream_t stream) {
  const auto kernel = norm_grad_kernel<C, D, X, kAdds>;
  constexpr int kBytes = WarpSums<C>::kBytes;
  NEAP_CHECK_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  kernel<<<blocks, dim3(32, kRowsABlock), kBytes, stream>>>(t);
  check_launch("layer_norm_grad");
}

template <class D, class X, bool kAdds>
void run_norm_grad(const NormGrad<D, X, kAdds>& t, float* dscale, float* dbias, cudaStream_t stream) {
  const std::int64_t parts = grad_blocks(t.s);
  const auto blocks = static_cast<unsigned>(parts);
  t.s.width <= 3 * 256 ? launch_norm_grad<3>(t, blocks, stream) : launch_norm_grad<kMostChunks>(t, blocks, stream);
  if (t.partial == nullptr) return;
  norm_parameters_kernel<<<dim3(static_cast<unsigned>((t.s.width + 31) / 32), 2), dim3(32, kRowsABlock), 0, stream>>>(
      parts, t.s.width, t.partial, dscale, dbias);
  check_launch("layer_norm_grad");
}

}  // namespace neap::ops
