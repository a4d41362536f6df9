// gelu by tanh for bf16, in few instructions: with the hardware's own exponential and reciprocal, whose errors are far
// below bf16's.
#pragma once

#include "device/cuda/quick.cuh"
#include "ops/unary/unary_formulas.cuh"

namespace neap::ops {

// x times this is gelu: 1 / (1 + exp(-2 k (x + 0.044715 x^3))), k = sqrt(2 / pi).
__device__ inline float quick_gelu_share(float x) {
  constexpr float kLinear = -2.3022082F;  // -2 k log2(e)
  constexpr float kCubic = -0.10294324F;  // 0.044715 of that
  return __fdividef(1, 1 + quick_exp2(x * fmaf(kCubic, x * x, kLinear)));
}
// d(x s)/dx = s + x s (1 - s) 2 k (1 + 3 * 0.044715 x^2)
__device__ inline float quick_gelu_slope(float x, float share) {
  constexpr float kLinear = 2 * kRootTwoOverPi;
  constexpr float kCubic = 2 * kRootTwoOverPi * 3 * 0.044715F;
  return fmaf(x * fmaf(kCubic, x * x, kLinear), fmaf(-share, share, share), share);
}

struct QuickGelu {
  __device__ float operator()(float x) const { return x * quick_gelu_share(x); }
};

struct QuickGeluSlope {
  __device__ float operator()(float dy, float x) const { return dy * quick_gelu_slope(x, quick_gelu_share(x)); }
};

}  // namespace neap::ops
