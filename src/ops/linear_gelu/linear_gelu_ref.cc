#include <cmath>
#include <vector>

#include "ops/linear_gelu/linear_gelu.h"

namespace neap::ops {
namespace {

constexpr double kRootTwoOverPi = 0.79788456080286535588;
constexpr double kCubic = 0.044715;

// x times this is gelu.
double share_of(double x) { return 1 / (1 + std::exp(-2 * kRootTwoOverPi * (x + kCubic * x * x * x))); }

double slope_of(double x) {
  const double s = share_of(x);
  return s + 2 * x * kRootTwoOverPi * (1 + 3 * kCubic * x * x) * s * (1 - s);
}

void run_grad(const GeluLinearGradShape& s, const Buffers& b) {
  const auto* dy = b.in<float>(0);
  const auto* w = b.in<float>(1);
  auto* again = s.more ? b.out<float>(1) : nullptr;
  auto* total = s.more ? b.out<float>(2) : nullptr;
  std::vector<double> sums(static_cast<std::size_t>(s.in));
  for (std::int64_t r = 0; r < s.rows; ++r) {
    for (std::int64_t i = 0; i < s.in; ++i) {
      const std::int64_t at = r * s.in + i;
      const double h = b.in<float>(2)[at];
      double d = 0;
      for (std::int64_t o = 0; o < s.out; ++o) d += static_cast<double>(dy[r * s.out + o]) * w[o * s.in + i];
      d *= slope_of(h);
      sums[static_cast<std::size_t>(i)] += d;
      b.out<float>(0)[at] = static_cast<float>(d);
      if (again != nullptr) again[at] = static_cast<float>(h * share_of(h));
    }
  }
  if (total == nullptr) return;
  for (std::size_t i = 0; i < sums.size(); ++i) total[i] = static_cast<float>(sums[i]);
}

}  // namespace

Prepared linear_gelu_ref(const OpCall& call) {
  return function_kernel([s = linear_gelu_shape(call)](const Buffers& b) {
    for (std::int64_t r = 0; r < s.rows; ++r) {
      const float* x = b.in<float>(0) + r * s.in;
      for (std::int64_t o = 0; o < s.out; ++o) {
        double h = s.bias ? b.in<float>(2)[o] : 0.0;
        for (std::int64_t i = 0; i < s.in; ++i) h += static_cast<double>(x[i]) * b.in<float>(1)[o * s.in + i];
        b.out<float>(0)[r * s.out + o] = static_cast<float>(h * share_of(h));
        b.out<float>(1)[r * s.out + o] = static_cast<float>(h);
      }
    }
  });
}

Prepared gelu_linear_grad_ref(const OpCall& call) {
  return function_kernel([s = gelu_linear_grad_shape(call)](const Buffers& b) { run_grad(s, b); });
}

}  // namespace neap::ops
