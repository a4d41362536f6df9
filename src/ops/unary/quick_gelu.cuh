// gelu by tanh for bf16: with the hardware's own exponential and division, whose errors are far below bf16's.
#pragma once

#include "ops/unary/unary_formulas.cuh"

namespace neap::ops {

// x times this is gelu.
__device__ inline float quick_gelu_share(float x) { return __fdividef(1, 1 + __expf(-2 * gelu_inner(x))); }
__device__ inline float quick_gelu_slope(float x, float share) {
  return fmaf(2 * x * gelu_inner_slope(x), share * (1 - share), share);
}

struct QuickGelu {
  __device__ float operator()(float x) const { return x * quick_gelu_share(x); }
};

struct QuickGeluSlope {
  __device__ float operator()(float dy, float x) const { return dy * quick_gelu_slope(x, quick_gelu_share(x)); }
};

}  // namespace neap::ops
