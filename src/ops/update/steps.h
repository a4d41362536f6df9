// The optimizers' formulas over a run of neighbours, for *_simd.cc files only. `grad(i)` is the gradient of neighbour
// i.
#pragma once

#include "ops/update/update_simd.h"

#ifndef NEAP_ISA_NS
#error "for *_simd.cc files, which are compiled once for each instruction set"
#endif

namespace neap::NEAP_ISA_NS {
namespace {

template <class Gradient>
inline void sgd_steps(float* p, Gradient grad, std::int64_t count, const SgdStep& step) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) p[i] -= step.rate * (grad(i) * step.scale + step.decay * p[i]);
}

template <class Gradient>
inline void momentum_steps(float* p, Gradient grad, float* m, std::int64_t count, const SgdStep& step) {
  // Nesterov looks one step of momentum ahead.
  const float of_gradient = step.nesterov ? 1.0F : 0.0F;
  const float of_momentum = step.nesterov ? step.momentum : 1.0F;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    const float gradient = grad(i) * step.scale + step.decay * p[i];
    const float velocity = step.momentum * m[i] + gradient;
    m[i] = velocity;
    p[i] -= step.rate * (of_gradient * gradient + of_momentum * velocity);
  }
}

template <class Gradient>
inline void adam_steps(float* p, Gradient grad, float* mean, float* square, std::int64_t count, const AdamStep& step) {
  const float over_root2 = 1.0F / step.root2;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    const float gradient = grad(i) * step.scale + step.decay * p[i];
    const float m1 = step.beta1 * mean[i] + step.rest1 * gradient;
    const float v1 = step.beta2 * square[i] + step.rest2 * gradient * gradient;
    mean[i] = m1;
    square[i] = v1;
    p[i] = p[i] * step.keep - step.rate * (m1 / (__builtin_sqrtf(v1) * over_root2 + step.eps));
  }
}

}  // namespace
}  // namespace neap::NEAP_ISA_NS
