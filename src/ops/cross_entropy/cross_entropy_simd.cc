#include "ops/cross_entropy/cross_entropy_simd.h"

#include "ops/softmax/rows_simd.h"

namespace neap::NEAP_ISA_NS {
namespace {

NEAP_VM std::int64_t target_of(const ClassRows& c, const void* targets, std::int64_t row) {
  return c.wide ? static_cast<const std::int64_t*>(targets)[row] : static_cast<const std::int32_t*>(targets)[row];
}

NEAP_VM bool counts(const ClassRows& c, std::int64_t target) {
  return target != c.ignore && target >= 0 && target < c.classes;
}

NEAP_VM float row_sum(const float* x, std::int64_t n) {
  vf sum{};
  over_row(x, n, 0, [&](vf v, std::int64_t, std::int64_t) { sum = sum + v; });
  return vsum_lanes(sum);
}

// (1 - s) (lse - x_t) + s (lse - mean x)
NEAP_VM double row_loss(const float* x, const ClassRows& c, std::int64_t target, float* lse) {
  const float top = row_max(x, c.classes);
  const float rest = vlog(vset(row_exp_sum(x, c.classes, top)))[0];
  if (lse != nullptr) *lse = top + rest;
  const double hit = static_cast<double>(top) - x[target] + rest;
  if (c.smoothing == 0) return hit;
  const double mean = static_cast<double>(row_sum(x, c.classes)) / static_cast<double>(c.classes);
  const double spread = static_cast<double>(top) - mean + rest;
  return hit + static_cast<double>(c.smoothing) * (spread - hit);
}

void forward(const float* logits, const void* targets, ClassRows c, double* sums, float* lse) {
  const std::int64_t blocks = c.rows < kLossBlocks ? c.rows : kLossBlocks;
#pragma omp parallel for schedule(static)
  for (std::int64_t b = 0; b < blocks; ++b) {
    double sum = 0;
    for (std::int64_t r = c.rows * b / blocks; r < c.rows * (b + 1) / blocks; ++r) {
      const std::int64_t target = target_of(c, targets, r);
      if (counts(c, target)) {
        sum += row_loss(logits + r * c.classes, c, target, lse != nullptr ? lse + r : nullptr);
      } else if (lse != nullptr) {
        lse[r] = 0;
      }
    }
    sums[b] = sum;
  }
}

// scale * (softmax - s / classes), less scale * (1 - s) at the target
void backward(const float* logits, const void* targets, const float* lse, float scale, ClassRows c, float* dx) {
  const float spread = c.smoothing / static_cast<float>(c.classes);
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < c.rows; ++r) {
    const float* x = logits + r * c.classes;
    float* d = dx + r * c.classes;
    const std::int64_t target = target_of(c, targets, r);
    const bool is_counted = counts(c, target);
    const float level = is_counted ? lse[r] : 0;
    over_row(x, c.classes, 0, [&](vf v, std::int64_t i, std::int64_t lanes) {
      vstore_n(d + i, is_counted ? (vexp(v - level) - spread) * scale : vf{}, lanes);
    });
    if (is_counted) d[target] -= scale * (1 - c.smoothing);
  }
}

NEAP_VM bool is_correct(const float* x, std::int64_t classes, std::int64_t target) {
  const float best = x[target];
  int beaten = 0;
  for (std::int64_t i = 0; i < target; ++i) beaten |= x[i] < best ? 0 : 1;
  for (std::int64_t i = target; i < classes; ++i) beaten |= x[i] <= best ? 0 : 1;
  return beaten == 0;
}

std::int64_t correct(const float* logits, const void* targets, ClassRows c) {
  std::int64_t total = 0;
#pragma omp parallel for schedule(static) reduction(+ : total)
  for (std::int64_t r = 0; r < c.rows; ++r) {
    const std::int64_t target = target_of(c, targets, r);
    total += counts(c, target) && is_correct(logits + r * c.classes, c.classes, target) ? 1 : 0;
  }
  return total;
}

}  // namespace

const CrossEntropyTable& cross_entropy_table() {
  static constexpr CrossEntropyTable kTable = {forward, backward, correct};
  return kTable;
}

}  // namespace neap::NEAP_ISA_NS
