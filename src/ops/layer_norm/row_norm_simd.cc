#include "ops/layer_norm/row_norm_simd.h"

#include "device/cpu/vmath.h"

namespace neap::NEAP_ISA_NS {
namespace {

constexpr std::int64_t kRowsTogether = 4;

NEAP_VM std::int64_t least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
NEAP_VM vf load_lanes(const float* p, std::int64_t n) { return n == kLanes ? vload(p) : vload_n(p, n); }
NEAP_VM void store_lanes(float* p, vf v, std::int64_t n) {
  if (n == kLanes) {
    vstore(p, v);
  } else {
    vstore_n(p, v, n);
  }
}
NEAP_VM vf load_lanes(const std::uint16_t* p, std::int64_t n) {
  return n == kLanes ? vload_bf16(p) : vload_bf16_n(p, n);
}
NEAP_VM void store_lanes(std::uint16_t* p, vf v, std::int64_t n) {
  if (n == kLanes) {
    vstore_bf16(p, v);
  } else {
    vstore_bf16_n(p, v, n);
  }
}
NEAP_VM vf load_or(const float* p, std::int64_t i, std::int64_t n, float without) {
  return p == nullptr ? vset(without) : load_lanes(p + i, n);
}

NEAP_VM vf add(vf v, vf sum) { return sum + v; }
NEAP_VM vf add_square(vf v, vf sum) { return vfma(v, v, sum); }

// Sum over a row of f(x - centre, sum), in four interleaved vectors.
template <vf (*kAdd)(vf, vf)>
NEAP_VM float sum_row(const float* x, std::int64_t width, float centre) {
  vf s0{}, s1{}, s2{}, s3{};
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= width; i += 4 * kLanes) {
    s0 = kAdd(vload(x + i) - centre, s0);
    s1 = kAdd(vload(x + i + kLanes) - centre, s1);
    s2 = kAdd(vload(x + i + 2 * kLanes) - centre, s2);
    s3 = kAdd(vload(x + i + 3 * kLanes) - centre, s3);
  }
  for (; i < width; i += kLanes) {
    const std::int64_t n = least(kLanes, width - i);
    s0 = kAdd((n == kLanes ? vload(x + i) : vload_n(x + i, n, centre)) - centre, s0);
  }
  return vsum_lanes((s0 + s1) + (s2 + s3));
}

template <bool kCentred, class Y>
void forward_as(const RowNorm& s, const RowNormForward& a) {
  const auto width = static_cast<float>(s.width);
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < s.rows; ++r) {
    const float* x = a.x + r * s.width;
    Y* y = static_cast<Y*>(a.y) + r * s.width;
    const float mean = kCentred ? sum_row<add>(x, s.width, 0) / width : 0;
    const float var = sum_row<add_square>(x, s.width, mean) / width;
    const float rstd = 1.0F / __builtin_sqrtf(var + s.epsilon);
    for (std::int64_t i = 0; i < s.width; i += kLanes) {
      const std::int64_t n = least(kLanes, s.width - i);
      const vf normal = (load_lanes(x + i, n) - mean) * rstd;
      store_lanes(y + i, vfma(normal, load_or(a.scale, i, n, 1), load_or(a.bias, i, n, 0)), n);
    }
    if (a.mean != nullptr) a.mean[r] = mean;
    if (a.rstd != nullptr) a.rstd[r] = rstd;
  }
}

template <bool kCentred>
void forward(const RowNorm& s, const RowNormForward& a) {
  a.is_narrow ? forward_as<kCentred, std::uint16_t>(s, a) : forward_as<kCentred, float>(s, a);
}

// R rows: their part of dscale and dbias is added to `partial`, then dx.
// g = scale dy, n = (x - mean) rstd: dx = rstd (g - [sum(g) / width] - n sum(g n) / width)
template <bool kCentred, class Dy, std::int64_t R>
NEAP_VM void backward_rows(const RowNorm& s, const RowNormBackward& a, std::int64_t row, float* partial) {
  const Dy* dy = static_cast<const Dy*>(a.dy) + row * s.width;
  const float* x = a.x + row * s.width;
  float mean[R], rstd[R];
  vf sum[R], product[R];
  for (std::int64_t r = 0; r < R; ++r) {
    mean[r] = kCentred ? a.mean[row + r] : 0;
    rstd[r] = a.rstd[row + r];
    sum[r] = product[r] = vf{};
  }
  for (std::int64_t i = 0; i < s.width; i += kLanes) {
    const std::int64_t n = least(kLanes, s.width - i);
    const vf scale = load_or(a.scale, i, n, 1);
    vf dscale{}, dbias{};
#pragma GCC unroll 4
    for (std::int64_t r = 0; r < R; ++r) {
      const vf d = load_lanes(dy + r * s.width + i, n);
      const vf normal = (load_lanes(x + r * s.width + i, n) - mean[r]) * rstd[r];
      const vf g = d * scale;
      if (kCentred) sum[r] += g;
      product[r] = vfma(g, normal, product[r]);
      dscale = vfma(d, normal, dscale);
      dbias += d;
    }
    store_lanes(partial + i, load_lanes(partial + i, n) + dscale, n);
    if (kCentred) store_lanes(partial + s.width + i, load_lanes(partial + s.width + i, n) + dbias, n);
  }
  if (a.dx == nullptr) return;
  float* dx = a.dx + row * s.width;
  const float per_element = 1.0F / static_cast<float>(s.width);
  for (std::int64_t r = 0; r < R; ++r) {
    const float k1 = kCentred ? vsum_lanes(sum[r]) * per_element : 0;
    const float k2 = vsum_lanes(product[r]) * per_element;
    for (std::int64_t i = 0; i < s.width; i += kLanes) {
      const std::int64_t n = least(kLanes, s.width - i);
      const vf normal = (load_lanes(x + r * s.width + i, n) - mean[r]) * rstd[r];
      const vf g = load_lanes(dy + r * s.width + i, n) * load_or(a.scale, i, n, 1);
      const vf made = (g - vfma(normal, vset(k2), vset(k1))) * rstd[r];
      const float* sum_row = a.sum == nullptr ? nullptr : a.sum + (row + r) * s.width + i;
      store_lanes(dx + r * s.width + i, sum_row == nullptr ? made : load_lanes(sum_row, n) + made, n);
    }
  }
}

// The parts' sums, in their order.
void merge(const RowNorm& s, const float* partial, float* out) {
  if (out == nullptr) return;
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < s.width; ++i) {
    double sum = 0;
    for (std::int64_t p = 0; p < s.parts; ++p) sum += partial[p * 2 * s.width + i];
    out[i] = static_cast<float>(sum);
  }
}

template <bool kCentred, class Dy>
void backward_as(const RowNorm& s, const RowNormBackward& a) {
#pragma omp parallel for schedule(static)
  for (std::int64_t p = 0; p < s.parts; ++p) {
    float* partial = a.partial + p * 2 * s.width;
    for (std::int64_t i = 0; i < 2 * s.width; ++i) partial[i] = 0;
    const std::int64_t last = least((p + 1) * s.part_rows, s.rows);
    std::int64_t r = p * s.part_rows;
    for (; r + kRowsTogether <= last; r += kRowsTogether) backward_rows<kCentred, Dy, kRowsTogether>(s, a, r, partial);
    for (; r < last; ++r) backward_rows<kCentred, Dy, 1>(s, a, r, partial);
  }
  merge(s, a.partial, a.dscale);
  if (kCentred) merge(s, a.partial + s.width, a.dbias);
}

template <bool kCentred>
void backward(const RowNorm& s, const RowNormBackward& a) {
  a.is_narrow ? backward_as<kCentred, std::uint16_t>(s, a) : backward_as<kCentred, float>(s, a);
}

}  // namespace

const RowNormTable& row_norm_table() {
  static constexpr RowNormTable kTable = {forward<true>, backward<true>, forward<false>, backward<false>};
  return kTable;
}

}  // namespace neap::NEAP_ISA_NS
