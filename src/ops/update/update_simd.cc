#include "ops/update/update_simd.h"

#include "ops/elementwise/blocks.h"
#include "ops/update/steps.h"

namespace neap::NEAP_ISA_NS {
namespace {

void sgd(float* param, const float* grad, std::int64_t n, SgdStep step) {
  for_blocks(n, [=](std::int64_t first, std::int64_t count) {
    const float* g = grad + first;
    sgd_steps(
        param + first, [g](std::int64_t i) { return g[i]; }, count, step);
  });
}

void sgd_momentum(float* param, const float* grad, float* momentum, std::int64_t n, SgdStep step) {
  for_blocks(n, [=](std::int64_t first, std::int64_t count) {
    const float* g = grad + first;
    momentum_steps(
        param + first, [g](std::int64_t i) { return g[i]; }, momentum + first, count, step);
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
  for_blocks(n, [=](std::int64_t first, std::int64_t count) {
    const float* g = grad + first;
    adam_steps(
        param + first, [g](std::int64_t i) { return g[i]; }, m + first, v + first, count, step);
  });
}

}  // namespace

const UpdateTable& update_table() {
  static constexpr UpdateTable kTable = {sgd, sgd_momentum, accumulate, adam};
  return kTable;
}

}  // namespace neap::NEAP_ISA_NS
