// The formulas of gate_ref.cc. Compiled with the library and, for fused programs, at run time.
#pragma once

#include "ops/relu/gate_simd.h"

namespace neap::ops {

struct Gated {
  float value;
  bool is_open;
};

__device__ inline Gated gate(GateFn fn, float x, GateArgs k) {
  switch (fn) {
    case GateFn::kRelu: return x <= 0 ? Gated{0, false} : Gated{x, true};
    case GateFn::kLeakyRelu: return x > 0 ? Gated{x, true} : Gated{k.closed * x, false};
    case GateFn::kThresholdedRelu: return x <= k.a ? Gated{0, false} : Gated{x, true};
    case GateFn::kClip: return {x != x ? x : fminf(k.b, fmaxf(k.a, x)), x >= k.a && x <= k.b};
    default: break;
  }
  const float line = k.a * x + k.b;
  return {line < 0 ? 0.0F : line > 1 ? 1.0F : line, line > 0 && line < 1};
}

}  // namespace neap::ops
