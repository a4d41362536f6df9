// The formulas of binary_ref.cc in f32. Compiled with the library and, for fused programs, at run time.
#pragma once

#include "ops/binary/binary_simd.h"

namespace neap::ops {

__device__ inline float floored_rest(float a, float b) {
  const float r = fmodf(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : copysignf(r, b);
}

__device__ inline float binary_value(BinaryFn fn, float a, float b) {
  switch (fn) {
    case BinaryFn::kAdd: return a + b;
    case BinaryFn::kSub: return a - b;
    case BinaryFn::kMul: return a * b;
    case BinaryFn::kDiv: return a / b;
    case BinaryFn::kMin: return a != a || b != b ? nanf("") : fminf(a, b);
    case BinaryFn::kMax: return a != a || b != b ? nanf("") : fmaxf(a, b);
    case BinaryFn::kMod: return floored_rest(a, b);
    case BinaryFn::kFmod: return fmodf(a, b);
    default: return powf(a, b);
  }
}

__device__ inline float binary_gradient(BinaryGradFn fn, float dy, float p, float q) {
  switch (fn) {
    case BinaryGradFn::kDivisor: return -dy * p / q;
    case BinaryGradFn::kBase: return q == 0 ? 0 : dy * q * powf(p, q - 1);
    case BinaryGradFn::kExponent: return p == 0 && isfinite(q) ? 0 : dy * q * logf(p);
    case BinaryGradFn::kMin: return p == q ? dy / 2 : p < q ? dy : 0;
    default: return p == q ? dy / 2 : p > q ? dy : 0;
  }
}

}  // namespace neap::ops
