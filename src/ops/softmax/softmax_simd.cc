#include "ops/softmax/softmax_simd.h"

#include "ops/softmax/rows_simd.h"

namespace neap::NEAP_ISA_NS {
namespace {

void forward_row(const float* x, float* y, std::int64_t n) {
  const float top = row_max(x, n);
  vf sum{};
  over_row(x, n, -__builtin_inff(), [&](vf v, std::int64_t i, std::int64_t lanes) {
    const vf e = vexp(v - top);
    vstore_n(y + i, e, lanes);
    sum = sum + (vlane() < static_cast<std::int32_t>(lanes) ? e : vf{});
  });
  const float scale = 1.0F / vsum_lanes(sum);
  over_row(y, n, 0, [&](vf v, std::int64_t i, std::int64_t lanes) { vstore_n(y + i, v * scale, lanes); });
}

void backward_row(const float* dy, const float* y, float* dx, std::int64_t n) {
  vf sum{};
  over_row(dy, n, 0, [&](vf v, std::int64_t i, std::int64_t lanes) { sum = vfma(v, vload_n(y + i, lanes), sum); });
  const float dot = vsum_lanes(sum);
  over_row(dy, n, 0, [&](vf v, std::int64_t i, std::int64_t lanes) {
    vstore_n(dx + i, vload_n(y + i, lanes) * (v - dot), lanes);
  });
}

// `lanes` columns side by side, `width` rows `stride` apart.
void forward_columns(const float* x, float* y, std::int64_t width, std::int64_t stride, std::int64_t lanes) {
  vf top = vset(-__builtin_inff());
  for (std::int64_t i = 0; i < width; ++i) top = vmax(top, vload_n(x + i * stride, lanes));
  vf sum{};
  for (std::int64_t i = 0; i < width; ++i) {
    const vf e = vexp(vload_n(x + i * stride, lanes) - top);
    vstore_n(y + i * stride, e, lanes);
    sum = sum + e;
  }
  const vf scale = 1.0F / sum;
  for (std::int64_t i = 0; i < width; ++i) vstore_n(y + i * stride, vload_n(y + i * stride, lanes) * scale, lanes);
}

void backward_columns(const float* dy, const float* y, float* dx, std::int64_t width, std::int64_t stride,
                      std::int64_t lanes) {
  vf dot{};
  for (std::int64_t i = 0; i < width; ++i) {
    dot = vfma(vload_n(dy + i * stride, lanes), vload_n(y + i * stride, lanes), dot);
  }
  for (std::int64_t i = 0; i < width; ++i) {
    vstore_n(dx + i * stride, vload_n(y + i * stride, lanes) * (vload_n(dy + i * stride, lanes) - dot), lanes);
  }
}

struct Columns {
  std::int64_t first;  // element
  std::int64_t lanes;
};

// Block `t` of all columns: (inner + kLanes - 1) / kLanes blocks an outer index.
NEAP_VM Columns columns_of(const AxisShape& s, std::int64_t t, std::int64_t blocks) {
  const std::int64_t column = t % blocks * kLanes;
  const std::int64_t left = s.inner - column;
  return {t / blocks * s.width * s.inner + column, left < kLanes ? left : kLanes};
}

void forward(const float* src, float* dst, AxisShape s) {
  if (s.inner == 1) {
#pragma omp parallel for schedule(static)
    for (std::int64_t r = 0; r < s.outer; ++r) forward_row(src + r * s.width, dst + r * s.width, s.width);
    return;
  }
  const std::int64_t blocks = (s.inner + kLanes - 1) / kLanes;
#pragma omp parallel for schedule(static)
  for (std::int64_t t = 0; t < s.outer * blocks; ++t) {
    const Columns c = columns_of(s, t, blocks);
    forward_columns(src + c.first, dst + c.first, s.width, s.inner, c.lanes);
  }
}

void backward(const float* diff_dst, const float* dst, float* diff_src, AxisShape s) {
  if (s.inner == 1) {
#pragma omp parallel for schedule(static)
    for (std::int64_t r = 0; r < s.outer; ++r) {
      const std::int64_t at = r * s.width;
      backward_row(diff_dst + at, dst + at, diff_src + at, s.width);
    }
    return;
  }
  const std::int64_t blocks = (s.inner + kLanes - 1) / kLanes;
#pragma omp parallel for schedule(static)
  for (std::int64_t t = 0; t < s.outer * blocks; ++t) {
    const Columns c = columns_of(s, t, blocks);
    backward_columns(diff_dst + c.first, dst + c.first, diff_src + c.first, s.width, s.inner, c.lanes);
  }
}

}  // namespace

const SoftmaxTable& softmax_table() {
  static constexpr SoftmaxTable kTable = {forward, backward};
  return kTable;
}

}  // namespace neap::NEAP_ISA_NS
