#include "ops/mse/pointwise_simd.h"

#include "device/cpu/vmath.h"

namespace neap::NEAP_ISA_NS {
namespace {

// log(1 + e) for 0 <= e <= 1, exact to rounding for small e too: log(u) * e / (u - 1) with u = 1 + e.
NEAP_VM vf log_one_plus(vf e) {
  const vf u = 1.0F + e;
  return u == 1.0F ? e : vlog(u) * (e / (u - 1.0F));
}

template <PointLoss kLoss>
NEAP_VM vf value(vf x, vf y, float beta) {
  const vf d = x - y;
  if constexpr (kLoss == PointLoss::kSquare) return d * d;
  if constexpr (kLoss == PointLoss::kAbsolute) return vabs(d);
  if constexpr (kLoss == PointLoss::kSmooth) {
    return vabs(d) < beta ? 0.5F * d * d / beta : vabs(d) - 0.5F * beta;
  }
  const vf positive = x > 0.0F ? x : vf{};
  return (positive - x * y) + log_one_plus(vexp(-vabs(x)));
}

NEAP_VM vf sign(vf d) { return d > 0.0F ? vset(1.0F) : (d < 0.0F ? vset(-1.0F) : d * 0.0F); }

template <PointLoss kLoss>
NEAP_VM vf slope(vf x, vf y, float beta, bool by_y) {
  if constexpr (kLoss == PointLoss::kLogistic) return by_y ? -x : vsigmoid(x) - y;
  const vf d = by_y ? y - x : x - y;
  if constexpr (kLoss == PointLoss::kSquare) return 2.0F * d;
  if constexpr (kLoss == PointLoss::kSmooth) return vabs(d) < beta ? d / beta : sign(d);
  return sign(d);
}

template <PointLoss kLoss>
double block_sum(const float* x, const float* y, std::int64_t n, float beta) {
  vf sum{};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) sum = sum + value<kLoss>(vload(x + i), vload(y + i), beta);
  if (i < n) {
    const vf last = value<kLoss>(vload_n(x + i, n - i), vload_n(y + i, n - i), beta);
    sum = sum + (vlane() < static_cast<std::int32_t>(n - i) ? last : vf{});
  }
  return static_cast<double>(vsum_lanes(sum));
}

template <PointLoss kLoss>
void forward(const float* x, const float* y, std::int64_t n, float beta, double* sums) {
#pragma omp parallel for schedule(static)
  for (std::int64_t b = 0; b < (n + kPointBlock - 1) / kPointBlock; ++b) {
    const std::int64_t first = b * kPointBlock;
    const std::int64_t count = n - first < kPointBlock ? n - first : kPointBlock;
    sums[b] = block_sum<kLoss>(x + first, y + first, count, beta);
  }
}

template <PointLoss kLoss>
void backward(const float* x, const float* y, std::int64_t n, float beta, float scale, bool by_y, float* out) {
#pragma omp parallel for schedule(static)
  for (std::int64_t b = 0; b < (n + kPointBlock - 1) / kPointBlock; ++b) {
    const std::int64_t first = b * kPointBlock;
    const std::int64_t end = n - first < kPointBlock ? n : first + kPointBlock;
    for (std::int64_t i = first; i < end; i += kLanes) {
      const std::int64_t lanes = end - i < kLanes ? end - i : kLanes;
      const vf a = lanes == kLanes ? vload(x + i) : vload_n(x + i, lanes);
      const vf c = lanes == kLanes ? vload(y + i) : vload_n(y + i, lanes);
      vstore_n(out + i, scale * slope<kLoss>(a, c, beta, by_y), lanes);
    }
  }
}

}  // namespace

const PointwiseTable& pointwise_table() {
  static constexpr PointwiseTable kTable = {{forward<PointLoss::kSquare>, forward<PointLoss::kAbsolute>,
                                             forward<PointLoss::kSmooth>, forward<PointLoss::kLogistic>},
                                            {backward<PointLoss::kSquare>, backward<PointLoss::kAbsolute>,
                                             backward<PointLoss::kSmooth>, backward<PointLoss::kLogistic>}};
  return kTable;
}

}  // namespace neap::NEAP_ISA_NS
