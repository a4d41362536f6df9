#include <algorithm>
#include <cmath>

#include "ops/cross_entropy/cross_entropy.h"

namespace neap::ops {
namespace {

double log_sum_exp(const float* x, std::int64_t n) {
  double top = x[0];
  for (std::int64_t i = 1; i < n; ++i) top = std::max(top, static_cast<double>(x[i]));
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += std::exp(x[i] - top);
  return top + std::log(sum);
}

double wanted(const ClassRows& c, std::int64_t target, std::int64_t i) {
  const double smoothing = c.smoothing;
  return (i == target ? 1 - smoothing : 0) + smoothing / static_cast<double>(c.classes);
}

}  // namespace

Prepared cross_entropy_ref(const OpCall& call) {
  return function_kernel([c = class_rows(call, 0, 1), mean = is_mean(call.attrs)](const Buffers& b) {
    const void* targets = b.in<void>(1);
    double sum = 0;
    for (std::int64_t r = 0; r < c.rows; ++r) {
      const std::int64_t target = target_at(c, targets, r);
      const float* x = b.in<float>(0) + r * c.classes;
      const bool counts = is_counted(c, target);
      const double lse = counts ? log_sum_exp(x, c.classes) : 0;
      for (std::int64_t i = 0; i < c.classes && counts; ++i) {
        const double share = wanted(c, target, i);
        if (share != 0) sum += share * (lse - x[i]);
      }
      if (b.out<float>(1) != nullptr) b.out<float>(1)[r] = static_cast<float>(lse);
    }
    *b.out<float>(0) = static_cast<float>(sum * loss_scale(c, targets, mean));
  });
}

Prepared cross_entropy_grad_ref(const OpCall& call) {
  return function_kernel([c = class_rows(call, 1, 2), mean = is_mean(call.attrs)](const Buffers& b) {
    const void* targets = b.in<void>(2);
    const double scale = *b.in<float>(0) * loss_scale(c, targets, mean);
    for (std::int64_t r = 0; r < c.rows; ++r) {
      const std::int64_t target = target_at(c, targets, r);
      const double lse = b.in<float>(3)[r];
      for (std::int64_t i = r * c.classes; i < (r + 1) * c.classes; ++i) {
        const double p = std::exp(b.in<float>(1)[i] - lse);
        const double d = (p - wanted(c, target, i - r * c.classes)) * scale;
        b.out<float>(0)[i] = is_counted(c, target) ? static_cast<float>(d) : 0;
      }
    }
  });
}

Prepared correct_count_ref(const OpCall& call) {
  return function_kernel([c = class_rows(call, 0, 1)](const Buffers& b) {
    std::int64_t correct = 0;
    for (std::int64_t r = 0; r < c.rows; ++r) {
      const std::int64_t target = target_at(c, b.in<void>(1), r);
      if (!is_counted(c, target)) continue;
      const float* x = b.in<float>(0) + r * c.classes;
      bool is_best = true;
      for (std::int64_t i = 0; i < c.classes; ++i) {
        is_best = is_best && (i < target ? x[i] < x[target] : x[i] <= x[target]);
      }
      correct += is_best ? 1 : 0;
    }
    b.out<std::int64_t>(0)[0] = correct;
    b.out<std::int64_t>(0)[1] = counted(c, b.in<void>(1));
  });
}

}  // namespace neap::ops
