#include "ops/update/update_simd.h"

#include "ops/elementwise/blocks.h"

namespace neap::NEAP_ISA_NS {
namespace {

void sgd(float* param, const float* grad, std::int64_t n, SgdStep step) {
  for_blocks(n, [=](std::int64_t first, std::int64_t count) {
    float* p = param + first;
    const float* g = grad + first;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) p[i] -= step.rate * (g[i] * step.scale + step.decay * p[i]);
  });
}

void sgd_momentum(float* param, const float* grad, float* momentum, std::int64_t n, SgdStep step) {
  // Nesterov looks one step of momentum ahead.
  const float of_gradient = step.nesterov ? 1.0F : 0.0F;
  const float of_momentum = step.nesterov ? step.momentum : 1.0F;
  for_blocks(n, [=](std::int64_t first, std::int64_t count) {
    float* p = param + first;
    const float* g = grad + first;
    float* m = momentum + first;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      const float gradient = g[i] * step.scale + step.decay * p[i];
      const float velocity = step.momentum * m[i] + gradient;
      m[i] = velocity;
      p[i] -= step.rate * (of_gradient * gradient + of_momentum * velocity);
    }
  });
}

void accumulate(float* sum, const float* grad, std::int64_t n, bool is_first) {
  for_blocks(n, [=](std::int64_t first, std::int64_t count) {
    float* s = sum + first;
    const float* g = grad + first;
    if (is_first) {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < count; ++i) s[i] = g[i];
    } else {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < count; ++i) s[i] += g[i];
    }
  });
}

void adam(float* param, const float* grad, float* m, float* v, std::int64_t n, AdamStep step) {
  const float over_root2 = 1.0F / step.root2;
  for_blocks(n, [=](std::int64_t first, std::int64_t count) {
    float* p = param + first;
    const float* g = grad + first;
    float* mean = m + first;
    float* square = v + first;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      const float gradient = g[i] * step.scale + step.decay * p[i];
      const float m1 = step.beta1 * mean[i] + step.rest1 * gradient;
      const float v1 = step.beta2 * square[i] + step.rest2 * gradient * gradient;
      mean[i] = m1;
      square[i] = v1;
      p[i] = p[i] * step.keep - step.rate * (m1 / (__builtin_sqrtf(v1) * over_root2 + step.eps));
    }
  });
}

}  // namespace

const UpdateTable& update_table() {
  static constexpr UpdateTable kTable = {sgd, sgd_momentum, accumulate, adam};
  return kTable;
}

}  // namespace neap::NEAP_ISA_NS
