#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/linear_loss/linear_loss.h"

namespace neap::ops {
namespace {

// Logits of a row become their gradients (of the sum); returns the row's loss.
double row_loss(const ClassRows& c, std::int64_t target, std::vector<double>& z) {
  const double top = *std::max_element(z.begin(), z.end());
  double sum = 0;
  for (const double v : z) sum += std::exp(v - top);
  const double lse = top + std::log(sum);
  const double spread = c.smoothing / static_cast<double>(c.classes);
  double loss = 0;
  for (std::size_t i = 0; i < z.size(); ++i) {
    const double share = spread + (static_cast<std::int64_t>(i) == target ? 1 - c.smoothing : 0.0);
    loss += share * (lse - z[i]);
    z[i] = std::exp(z[i] - lse) - share;
  }
  return loss;
}

void run(const LinearLossShape& s, const Buffers& b) {
  const ClassRows& c = s.classes;
  const void* targets = b.in<void>(3);
  const double scale = loss_scale(c, targets, s.mean);
  std::vector<double> dw(static_cast<std::size_t>(c.classes * s.in));
  std::vector<double> db(static_cast<std::size_t>(c.classes));
  std::vector<double> z(static_cast<std::size_t>(c.classes));
  double loss = 0;
  for (std::int64_t r = 0; r < c.rows; ++r) {
    const float* x = b.in<float>(0) + r * s.in;
    const std::int64_t target = target_at(c, targets, r);
    for (std::int64_t o = 0; o < c.classes; ++o) {
      double sum = s.bias ? b.in<float>(2)[o] : 0.0;
      for (std::int64_t i = 0; i < s.in; ++i) sum += static_cast<double>(x[i]) * b.in<float>(1)[o * s.in + i];
      z[static_cast<std::size_t>(o)] = sum;
    }
    const bool counts = is_counted(c, target);
    if (counts) loss += row_loss(c, target, z);
    if (!counts) std::fill(z.begin(), z.end(), 0.0);
    for (std::int64_t i = 0; i < s.in; ++i) {
      double sum = 0;
      for (std::int64_t o = 0; o < c.classes; ++o) {
        const double d = z[static_cast<std::size_t>(o)] * scale;
        sum += d * b.in<float>(1)[o * s.in + i];
        dw[static_cast<std::size_t>(o * s.in + i)] += d * x[i];
      }
      if (b.out<float>(1) != nullptr) b.out<float>(1)[r * s.in + i] = static_cast<float>(sum);
    }
    for (std::size_t o = 0; o < db.size(); ++o) db[o] += z[o] * scale;
  }
  if (b.out<float>(0) != nullptr) *b.out<float>(0) = static_cast<float>(loss * scale);
  for (std::size_t i = 0; i < dw.size() && b.out<float>(2) != nullptr; ++i)
    b.out<float>(2)[i] = static_cast<float>(dw[i]);
  for (std::size_t i = 0; i < db.size() && b.out<float>(3) != nullptr; ++i)
    b.out<float>(3)[i] = static_cast<float>(db[i]);
}

}  // namespace

Prepared linear_loss_ref(const OpCall& call) {
  return function_kernel([s = linear_loss_shape(call, 4)](const Buffers& b) { run(s, b); });
}

}  // namespace neap::ops
