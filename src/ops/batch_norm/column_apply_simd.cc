#include "ops/batch_norm/columns_lanes.h"

namespace neap::NEAP_ISA_NS {
namespace {

// Elements that are worked on before their mask is made from them, while they are in the first-level cache.
constexpr std::int64_t kElementsTogether = 4096;

// One image's tables.
struct Tables {
  const float* mean;
  const float* rstd;
  const float* scale;
  const float* bias;
};

NEAP_VM const float* of_image(const ColumnTable& table, std::int64_t image) {
  return table.at == nullptr ? nullptr : table.at + image * table.stride;
}

template <bool kResidual, bool kRelu, std::int64_t R, class T>
NEAP_VM void apply_rows(const T* x, const T* residual, T* y, std::int64_t columns, const Tables& t) {
  for (std::int64_t c = 0; c < columns; c += kLanes) {
    const std::int64_t n = lanes_at(c, columns);
    const vf mean = load_lanes(t.mean + c, n);
    const vf factor = column(t.scale, c, n, 1) * load_lanes(t.rstd + c, n);
    const vf bias = column(t.bias, c, n, 0);
#pragma GCC unroll 4
    for (std::int64_t r = 0; r < R; ++r) {
      const std::int64_t at = r * columns + c;
      vf v = vfma(load_lanes(x + at, n) - mean, factor, bias);
      if (kResidual) v += load_lanes(residual + at, n);
      if (kRelu) v = vmax(vf{}, v);
      store_lanes(y + at, v, n);
    }
  }
}

// A bit a lane.
NEAP_VM unsigned positive_bits(vf y) {
#if defined(__AVX512F__)
  return _mm512_cmp_ps_mask(y, vf{}, _CMP_GT_OQ);
#elif defined(__AVX2__)
  return static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(y, vf{}, _CMP_GT_OQ)));
#else
  return static_cast<unsigned>(_mm_movemask_ps(_mm_cmpgt_ps(y, vf{})));
#endif
}

// Bits of y > 0; y's first element is the lowest bit of the first byte.
template <class T>
void make_mask(const T* y, std::int64_t count, std::uint8_t* mask) {
  std::int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    unsigned bits = 0;
    for (int v = 0; v < 16; v += kLanes) bits |= positive_bits(load_lanes(y + i + v, kLanes)) << v;
    const auto two = static_cast<std::uint16_t>(bits);
    __builtin_memcpy(mask + i / 8, &two, sizeof two);
  }
  for (; i < count; i += 8) {
    unsigned bits = 0;
    for (std::int64_t v = 0; v < least(8, count - i); v += kLanes) {
      const std::int64_t n = least(kLanes, count - i - v);
      bits |= positive_bits(load_lanes(y + i + v, n)) << v;
    }
    mask[i / 8] = static_cast<std::uint8_t>(bits);
  }
}

template <bool kResidual, bool kRelu, class T>
void apply(const Columns& s, const ColumnApply& a) {
  const T* x = static_cast<const T*>(a.x);
  const T* residual = static_cast<const T*>(a.residual);
  T* y = static_cast<T*>(a.y);
  // A multiple of 8 rows: every group's mask starts at a whole byte.
  const std::int64_t together = (kElementsTogether / s.c + 8) / 8 * 8;
  const std::int64_t groups = (s.rows + together - 1) / together;
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < s.images * groups; ++i) {
    const std::int64_t image = i / groups;
    const std::int64_t first = i % groups * together;
    const std::int64_t rows = least(together, s.rows - first);
    const std::int64_t at = (image * s.rows + first) * s.c;
    const Tables t = {of_image(a.mean, image), of_image(a.rstd, image), of_image(a.scale, image),
                      of_image(a.bias, image)};
    std::int64_t r = 0;
    for (; r + 4 <= rows; r += 4) {
      apply_rows<kResidual, kRelu, 4>(x + at + r * s.c, residual + (kResidual ? at + r * s.c : 0), y + at + r * s.c,
                                      s.c, t);
    }
    for (; r < rows; ++r) {
      apply_rows<kResidual, kRelu, 1>(x + at + r * s.c, residual + (kResidual ? at + r * s.c : 0), y + at + r * s.c,
                                      s.c, t);
    }
    if (a.mask != nullptr) make_mask(y + at, rows * s.c, a.mask + at / 8);
  }
}

template <class T>
void apply_as(const Columns& s, const ColumnApply& a) {
  if (a.residual != nullptr) {
    a.relu ? apply<true, true, T>(s, a) : apply<true, false, T>(s, a);
  } else {
    a.relu ? apply<false, true, T>(s, a) : apply<false, false, T>(s, a);
  }
}

}  // namespace

void column_apply(const Columns& s, const ColumnApply& a) {
  a.is_narrow ? apply_as<std::uint16_t>(s, a) : apply_as<float>(s, a);
}

}  // namespace neap::NEAP_ISA_NS
