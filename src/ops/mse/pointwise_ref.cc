#include <algorithm>
#include <cmath>

#include "ops/mse/pointwise.h"

namespace neap::ops {
namespace {

double value(PointLoss loss, double x, double y, double beta) {
  const double d = std::abs(x - y);
  switch (loss) {
    case PointLoss::kSquare: return d * d;
    case PointLoss::kAbsolute: return d;
    case PointLoss::kSmooth: return d < beta ? 0.5 * d * d / beta : d - 0.5 * beta;
    case PointLoss::kLogistic: break;
  }
  return std::max(x, 0.0) - x * y + std::log1p(std::exp(-std::abs(x)));
}

double slope(PointLoss loss, double x, double y, double beta, bool by_y) {
  if (loss == PointLoss::kLogistic) return by_y ? -x : 1 / (1 + std::exp(-x)) - y;
  const double d = by_y ? y - x : x - y;
  if (loss == PointLoss::kSquare) return 2 * d;
  if (loss == PointLoss::kSmooth && std::abs(d) < beta) return d / beta;
  return d > 0 ? 1 : d < 0 ? -1 : d * 0;
}

}  // namespace

Prepared pointwise_ref(const OpCall& call, PointLoss loss) {
  return function_kernel([c = pointwise_call(call, 0), loss](const Buffers& b) {
    double sum = 0;
    for (std::int64_t i = 0; i < c.n; ++i) sum += value(loss, b.in<float>(0)[i], b.in<float>(1)[i], c.beta);
    *b.out<float>(0) = static_cast<float>(sum * c.scale);
  });
}

Prepared pointwise_grad_ref(const OpCall& call, PointLoss loss) {
  return function_kernel([c = pointwise_call(call, 1), loss](const Buffers& b) {
    const double scale = *b.in<float>(0) * c.scale;
    for (std::int64_t i = 0; i < c.n; ++i) {
      b.out<float>(0)[i] =
          static_cast<float>(scale * slope(loss, b.in<float>(1)[i], b.in<float>(2)[i], c.beta, c.by_y));
    }
  });
}

}  // namespace neap::ops
