// Layer norm over rows whose width is a multiple of 8, of f32 or bf16: a warp a row, eight elements a lane at a time.
#pragma once

#include "device/cuda/floats.cuh"
#include "device/cuda/launch.cuh"
#include "ops/layer_norm/row_norm.h"
#include "ops/reduce/columns8.cuh"

namespace neap::ops {

inline constexpr int kRowsABlock = 8;
inline constexpr int kMostChunks = 8;  // of 256 elements that a warp keeps in registers

__device__ inline float warp_sum(float v) {
  for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(0xffffffffU, v, step);
  return v;
}

template <class X, class Y>
__global__ void __launch_bounds__(256)
    norm_kernel(RowNorm s, const X* x, const float* scale, const float* bias, Y* y, float* mean, float* rstd) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kRowsABlock + threadIdx.y;
  if (row >= s.rows) return;
  const auto width = static_cast<float>(s.width);
  const X* in = x + row * s.width;
  float v[kMostChunks][kVector];
  float sum = 0;
#pragma unroll
  for (int k = 0; k < kMostChunks; ++k) {
    const std::int64_t at = (k * 32 + static_cast<int>(threadIdx.x)) * kVector;
    if (at >= s.width) break;
    load8(in + at, v[k]);
    for (int i = 0; i < kVector; ++i) sum += v[k][i];
  }
  const float centre = warp_sum(sum) / width;
  float squares = 0;
#pragma unroll
  for (int k = 0; k < kMostChunks; ++k) {
    if ((k * 32 + static_cast<int>(threadIdx.x)) * kVector >= s.width) break;
    for (int i = 0; i < kVector; ++i) squares = fmaf(v[k][i] - centre, v[k][i] - centre, squares);
  }
  const float over_deviation = 1 / sqrtf(warp_sum(squares) / width + s.epsilon);
#pragma unroll
  for (int k = 0; k < kMostChunks; ++k) {
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

// dx = rstd (g - mean(g) - normal mean(g normal)), g = dy scale
template <class D, class X>
__global__ void __launch_bounds__(256) norm_grad_kernel(RowNorm s, const D* dy, const X* x, const float* mean,
                                                        const float* rstd, const float* scale, X* dx) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kRowsABlock + threadIdx.y;
  if (row >= s.rows) return;
  const auto width = static_cast<float>(s.width);
  const float centre = mean[row];
  const float over_deviation = rstd[row];
  float g[kMostChunks][kVector];
  float normal[kMostChunks][kVector];
  float sum = 0;
  float product = 0;
#pragma unroll
  for (int k = 0; k < kMostChunks; ++k) {
    const std::int64_t at = (k * 32 + static_cast<int>(threadIdx.x)) * kVector;
    if (at >= s.width) break;
    load8(dy + row * s.width + at, g[k]);
    load8(x + row * s.width + at, normal[k]);
    float a[kVector];
    if (scale != nullptr) load8(scale + at, a);
    for (int i = 0; i < kVector; ++i) {
      if (scale != nullptr) g[k][i] *= a[i];
      normal[k][i] = (normal[k][i] - centre) * over_deviation;
      sum += g[k][i];
      product = fmaf(g[k][i], normal[k][i], product);
    }
  }
  sum = warp_sum(sum) / width;
  product = warp_sum(product) / width;
#pragma unroll
  for (int k = 0; k < kMostChunks; ++k) {
    const std::int64_t at = (k * 32 + static_cast<int>(threadIdx.x)) * kVector;
    if (at >= s.width) break;
    for (int i = 0; i < kVector; ++i) g[k][i] = over_deviation * (g[k][i] - sum - normal[k][i] * product);
    store8(dx + row * s.width + at, g[k]);
  }
}

template <class D, class X>
struct NormParameterTerm {
  const D* dy;
  const X* x;
  const float *mean, *rstd;
  std::int64_t width;
  __device__ void operator()(std::int64_t row, std::int64_t column, float (&sums)[2][kVector]) const {
    float d[kVector];
    float v[kVector];
    load8(dy + row * width + column, d);
    load8(x + row * width + column, v);
    const float centre = mean[row];
    const float over_deviation = rstd[row];
    for (int i = 0; i < kVector; ++i) {
      sums[0][i] = fmaf(d[i], (v[i] - centre) * over_deviation, sums[0][i]);
      sums[1][i] += d[i];
    }
  }
};

struct NormParameterFinish {
  float *dscale, *dbias;
  __device__ void operator()(std::int64_t column, const double* sums) const {
    if (dscale != nullptr) dscale[column] = static_cast<float>(sums[0]);
    if (dbias != nullptr) dbias[column] = static_cast<float>(sums[1]);
  }
};

}  // namespace neap::ops
