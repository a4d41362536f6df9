#include "ops/log_softmax/log_softmax_simd.h"

#include "ops/softmax/rows_simd.h"

namespace neap::NEAP_ISA_NS {
namespace {

void forward_row(const float* x, float* y, std::int64_t n) {
  const float top = row_max(x, n);
  const float rest = vlog(vset(row_exp_sum(x, n, top)))[0];
  over_row(x, n, 0, [&](vf v, std::int64_t i, std::int64_t lanes) { vstore_n(y + i, (v - top) - rest, lanes); });
}

void backward_row(const float* dy, const float* y, float* dx, std::int64_t n) {
  vf parts{};
  over_row(dy, n, 0, [&](vf v, std::int64_t, std::int64_t) { parts = parts + v; });
  const float sum = vsum_lanes(parts);
  over_row(dy, n, 0, [&](vf v, std::int64_t i, std::int64_t lanes) {
    vstore_n(dx + i, v - vexp(vload_n(y + i, lanes)) * sum, lanes);
  });
}

void forward_columns(const float* x, float* y, std::int64_t width, std::int64_t stride, std::int64_t lanes) {
  vf top = vset(-__builtin_inff());
  for (std::int64_t i = 0; i < width; ++i) top = vmax(top, vload_n(x + i * stride, lanes));
  vf sum{};
  for (std::int64_t i = 0; i < width; ++i) sum = sum + vexp(vload_n(x + i * stride, lanes) - top);
  const vf rest = vlog(sum);
  for (std::int64_t i = 0; i < width; ++i) {
    vstore_n(y + i * stride, (vload_n(x + i * stride, lanes) - top) - rest, lanes);
  }
}

void backward_columns(const float* dy, const float* y, float* dx, std::int64_t width, std::int64_t stride,
                      std::int64_t lanes) {
  vf sum{};
  for (std::int64_t i = 0; i < width; ++i) sum = sum + vload_n(dy + i * stride, lanes);
  for (std::int64_t i = 0; i < width; ++i) {
    const vf p = vexp(vload_n(y + i * stride, lanes));
    vstore_n(dx + i * stride, vload_n(dy + i * stride, lanes) - p * sum, lanes);
  }
}

void forward(const float* src, float* dst, AxisShape s) {
  const std::int64_t blocks = s.inner == 1 ? 1 : (s.inner + kLanes - 1) / kLanes;
#pragma omp parallel for schedule(static)
  for (std::int64_t t = 0; t < s.outer * blocks; ++t) {
    const std::int64_t column = t % blocks * kLanes;
    const std::int64_t at = t / blocks * s.width * s.inner + column;
    if (s.inner == 1) {
      forward_row(src + at, dst + at, s.width);
    } else {
      forward_columns(src + at, dst + at, s.width, s.inner, s.inner - column < kLanes ? s.inner - column : kLanes);
    }
  }
}

void backward(const float* diff_dst, const float* dst, float* diff_src, AxisShape s) {
  const std::int64_t blocks = s.inner == 1 ? 1 : (s.inner + kLanes - 1) / kLanes;
#pragma omp parallel for schedule(static)
  for (std::int64_t t = 0; t < s.outer * blocks; ++t) {
    const std::int64_t column = t % blocks * kLanes;
    const std::int64_t at = t / blocks * s.width * s.inner + column;
    if (s.inner == 1) {
      backward_row(diff_dst + at, dst + at, diff_src + at, s.width);
    } else {
      backward_columns(diff_dst + at, dst + at, diff_src + at, s.width, s.inner,
                       s.inner - column < kLanes ? s.inner - column : kLanes);
    }
  }
}

}  // namespace

const SoftmaxTable& log_softmax_table() {
  static constexpr SoftmaxTable kTable = {forward, backward};
  return kTable;
}

}  // namespace neap::NEAP_ISA_NS
