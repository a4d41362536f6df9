#include "ops/resize/resize_simd.h"

namespace neap::NEAP_ISA_NS {
namespace {

void fill(float* y, std::int64_t n, float value) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = value;
}

// One output pixel of 2 x 2 taps: a, b above; c, d below.
inline void blend(const float* __restrict a, const float* __restrict b, const float* __restrict c,
                  const float* __restrict d, const float* k, float* __restrict y, std::int64_t n) {
  const float ka = k[0];
  const float kb = k[1];
  const float kc = k[2];
  const float kd = k[3];
  for (std::int64_t i = 0; i < n; ++i) y[i] = (ka * a[i] + kb * b[i]) + (kc * c[i] + kd * d[i]);
}

inline void add_scaled(const float* __restrict x, float k, float* __restrict y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] += k * x[i];
}

inline void set_scaled(const float* __restrict x, float k, float* __restrict y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = k * x[i];
}

// `x` is the image; taps of the row are h0 .. h1, those of the pixel w0 .. w1.
inline void pixel(const ResizeShape& s, const float* x, std::int32_t h0, std::int32_t h1, std::int32_t w0,
                  std::int32_t w1, float* y) {
  const std::int64_t n = s.inner;
  const auto from = [&](std::int32_t th, std::int32_t tw) { return x + (s.h.index[th] * s.w.in + s.w.index[tw]) * n; };
  if (h1 - h0 == 2 && w1 - w0 == 2) {
    const float k[4] = {s.h.weight[h0] * s.w.weight[w0], s.h.weight[h0] * s.w.weight[w0 + 1],
                        s.h.weight[h0 + 1] * s.w.weight[w0], s.h.weight[h0 + 1] * s.w.weight[w0 + 1]};
    return blend(from(h0, w0), from(h0, w0 + 1), from(h0 + 1, w0), from(h0 + 1, w0 + 1), k, y, n);
  }
  bool is_first = true;
  for (std::int32_t th = h0; th < h1; ++th) {
    for (std::int32_t tw = w0; tw < w1; ++tw) {
      const float k = s.h.weight[th] * s.w.weight[tw];
      is_first ? set_scaled(from(th, tw), k, y, n) : add_scaled(from(th, tw), k, y, n);
      is_first = false;
    }
  }
  if (is_first) fill(y, n, 0);
}

void row(const ResizeShape& s, const float* x, std::int64_t r, float* y) {
  const std::int64_t oh = r % s.h.out;
  const float* image = x + r / s.h.out * s.h.in * s.w.in * s.inner;
  for (std::int64_t ow = 0; ow < s.w.out; ++ow) {
    float* to = y + (r * s.w.out + ow) * s.inner;
    if (s.h.outside[oh] != 0 || s.w.outside[ow] != 0) {
      fill(to, s.inner, s.extrapolation);
    } else {
      pixel(s, image, s.h.begin[oh], s.h.begin[oh + 1], s.w.begin[ow], s.w.begin[ow + 1], to);
    }
  }
}

void run(const ResizeShape& s, const float* x, float* y) {
  const std::int64_t rows = s.outer * s.h.out;
#pragma omp parallel for schedule(static) if (rows * s.w.out * s.inner > 16384)
  for (std::int64_t r = 0; r < rows; ++r) row(s, x, r, y);
}

}  // namespace

const ResizeTable& resize_table() {
  static constexpr ResizeTable kTable = {run};
  return kTable;
}

}  // namespace neap::NEAP_ISA_NS
