// The formulas of unary_ref.cc in f32. Compiled with the library and, for fused programs, at run time.
#pragma once

#include "ops/unary/unary_simd.h"

namespace neap::ops {

constexpr float kRootHalf = 0.70710678118654752F;
constexpr float kRootTwoOverPi = 0.79788456080286536F;
constexpr float kOverRootPi = 0.56418958354775629F;

__device__ inline float sigmoid_of(float x) { return x < 0 ? expf(x) / (1 + expf(x)) : 1 / (1 + expf(-x)); }
__device__ inline float softplus_of(float x) { return x != x ? x : fmaxf(x, 0) + log1pf(expf(-fabsf(x))); }
__device__ inline float sign_of(float x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
__device__ inline float phi_of(float x) { return 0.5F * erfcf(-x * kRootHalf); }
__device__ inline float times_fading(float x, float factor) { return factor == 0 ? 0 : x * factor; }
__device__ inline float gelu_inner(float x) { return kRootTwoOverPi * (x + 0.044715F * x * x * x); }
__device__ inline float gelu_inner_slope(float x) { return kRootTwoOverPi * (1 + 3 * 0.044715F * x * x); }

__device__ inline float activation(UnaryFn fn, float x, UnaryArgs k) {
  switch (fn) {
    case UnaryFn::kElu: return x > 0 ? x : k.a * expm1f(x);
    case UnaryFn::kSelu: return k.b * (x > 0 ? x : k.a * expm1f(x));
    case UnaryFn::kCelu: return x > 0 ? x : k.a * expm1f(x / k.a);
    case UnaryFn::kHardSwish: return x <= -3 ? 0 : x >= 3 ? x : x * (x + 3) / 6;
    case UnaryFn::kSoftplus: return softplus_of(x);
    case UnaryFn::kSoftsign: return isinf(x) ? sign_of(x) : x / (1 + fabsf(x));
    case UnaryFn::kMish: return times_fading(x, tanhf(softplus_of(x)));
    case UnaryFn::kGelu: return times_fading(x, phi_of(x));
    case UnaryFn::kGeluTanh: return times_fading(x, sigmoid_of(2 * gelu_inner(x)));
    case UnaryFn::kSilu: return times_fading(x, sigmoid_of(x));
    case UnaryFn::kSigmoid: return sigmoid_of(x);
    case UnaryFn::kTanh: return tanhf(x);
    default: return erff(x);
  }
}

__device__ inline float arithmetic(UnaryFn fn, float x) {
  switch (fn) {
    case UnaryFn::kExp: return expf(x);
    case UnaryFn::kLog: return logf(x);
    case UnaryFn::kLog1p: return log1pf(x);
    case UnaryFn::kSqrt: return sqrtf(x);
    case UnaryFn::kRsqrt: return 1 / sqrtf(x);
    case UnaryFn::kReciprocal: return 1 / x;
    case UnaryFn::kNeg: return -x;
    case UnaryFn::kAbs: return fabsf(x);
    case UnaryFn::kSquare: return x * x;
    case UnaryFn::kFloor: return floorf(x);
    case UnaryFn::kCeil: return ceilf(x);
    case UnaryFn::kRound: return nearbyintf(x);
    case UnaryFn::kSin: return sinf(x);
    case UnaryFn::kCos: return cosf(x);
    case UnaryFn::kTan: return tanf(x);
    case UnaryFn::kAsin: return asinf(x);
    case UnaryFn::kAcos: return acosf(x);
    case UnaryFn::kAtan: return atanf(x);
    case UnaryFn::kSinh: return sinhf(x);
    case UnaryFn::kCosh: return coshf(x);
    case UnaryFn::kAsinh: return asinhf(x);
    case UnaryFn::kAcosh: return acoshf(x);
    case UnaryFn::kAtanh: return atanhf(x);
    default: return sign_of(x);
  }
}

__device__ inline float mish_slope(float x) {
  const float t = tanhf(softplus_of(x));
  return t + times_fading(x, (1 - t * t) * sigmoid_of(x));
}

__device__ inline float gelu_tanh_slope(float x) {
  const float s = sigmoid_of(2 * gelu_inner(x));
  return s + times_fading(2 * x * gelu_inner_slope(x), s * (1 - s));
}

__device__ inline float activation_slope(UnaryFn fn, float s, UnaryArgs k) {
  switch (fn) {
    case UnaryFn::kElu: return s > 0 ? 1 : s + k.a;
    case UnaryFn::kSelu: return s > 0 ? k.b : s + k.a * k.b;
    case UnaryFn::kCelu: return s > 0 ? 1 : s / k.a + 1;
    case UnaryFn::kHardSwish: return s <= -3 ? 0 : s >= 3 ? 1 : s / 3 + 0.5F;
    case UnaryFn::kSoftplus: return -expm1f(-s);
    case UnaryFn::kSoftsign: return (1 - fabsf(s)) * (1 - fabsf(s));
    case UnaryFn::kMish: return mish_slope(s);
    case UnaryFn::kGelu: return phi_of(s) + times_fading(s, expf(-s * s / 2) * kOverRootPi * kRootHalf);
    case UnaryFn::kGeluTanh: return gelu_tanh_slope(s);
    case UnaryFn::kSilu: return sigmoid_of(s) + times_fading(s, sigmoid_of(s) * sigmoid_of(-s));
    case UnaryFn::kSigmoid: return s * (1 - s);
    case UnaryFn::kTanh: return 1 - s * s;
    default: return 2 * kOverRootPi * expf(-s * s);
  }
}

__device__ inline float arithmetic_slope(UnaryFn fn, float s) {
  switch (fn) {
    case UnaryFn::kLog1p: return 1 / (1 + s);
    case UnaryFn::kSqrt: return 0.5F / s;
    case UnaryFn::kRsqrt: return -0.5F * s * s * s;
    case UnaryFn::kReciprocal: return -s * s;
    case UnaryFn::kAbs: return sign_of(s);
    case UnaryFn::kSquare: return 2 * s;
    case UnaryFn::kSin: return cosf(s);
    case UnaryFn::kCos: return -sinf(s);
    case UnaryFn::kTan: return 1 + s * s;
    case UnaryFn::kAsin: return 1 / sqrtf((1 - s) * (1 + s));
    case UnaryFn::kAcos: return -1 / sqrtf((1 - s) * (1 + s));
    case UnaryFn::kAtan: return 1 / (1 + s * s);
    case UnaryFn::kSinh: return coshf(s);
    case UnaryFn::kCosh: return sinhf(s);
    case UnaryFn::kAsinh: return 1 / sqrtf(s * s + 1);
    case UnaryFn::kAcosh: return 1 / sqrtf((s - 1) * (s + 1));
    default: return 1 / ((1 - s) * (1 + s));
  }
}

__device__ inline float unary_value(UnaryFn fn, float x, UnaryArgs k) {
  return fn <= UnaryFn::kErf ? activation(fn, x, k) : arithmetic(fn, x);
}
// `saved` is the input or the output, as the op's definition says.
__device__ inline float unary_gradient(UnaryFn fn, float dy, float saved, UnaryArgs k) {
  return dy * (fn <= UnaryFn::kErf ? activation_slope(fn, saved, k) : arithmetic_slope(fn, saved));
}

}  // namespace neap::ops
