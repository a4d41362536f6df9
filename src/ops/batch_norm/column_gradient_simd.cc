#include "ops/batch_norm/columns_lanes.h"

namespace neap::NEAP_ISA_NS {
namespace {

constexpr std::int64_t kRowsTogether = 4;

// One image's tables.
struct Tables {
  const float *mean, *rstd, *scale, *bias, *k0, *k1, *k2;

  explicit Tables(const ColumnGradient& a, std::int64_t image)
      : mean(of_image(a.mean, image)),
        rstd(of_image(a.rstd, image)),
        scale(of_image(a.scale, image)),
        bias(of_image(a.bias, image)),
        k0(of_image(a.k0, image)),
        k1(of_image(a.k1, image)),
        k2(of_image(a.k2, image)) {}

  static const float* of_image(const ColumnTable& table, std::int64_t image) {
    return table.at == nullptr ? nullptr : table.at + image * table.stride;
  }
};

// The tensors of f32, or of bf16.
template <class T>
struct View {
  const T* dy;
  const T* x;
  const std::uint8_t* mask;
  T* dx;
  T* g;

  explicit View(const ColumnGradient& a)
      : dy(static_cast<const T*>(a.dy)),
        x(static_cast<const T*>(a.x)),
        mask(a.mask),
        dx(static_cast<T*>(a.dx)),
        g(static_cast<T*>(a.g)) {}
};

// What the gate needs of the columns from c on.
template <ColumnGate kGate>
struct Gate {
  vf factor{};
  vf bias{};

  Gate(const Tables& t, std::int64_t c, std::int64_t n) {
    if (kGate != ColumnGate::kSign) return;
    factor = column(t.scale, c, n, 1) * load_lanes(t.rstd + c, n);
    bias = column(t.bias, c, n, 0);
  }

  // The same operations as in forward, so that the sign is the same to the bit.
  NEAP_VM vf operator()(vf dy, vf centred, const std::uint8_t* mask, std::int64_t at, std::int64_t n) const {
    if (kGate == ColumnGate::kMask) return mask_lanes(mask, at, n) ? dy : vf{};
    if (kGate == ColumnGate::kSign) return vfma(centred, factor, bias) > 0 ? dy : vf{};
    return dy;
  }
};

// Adds R rows' g and g * (x - mean) to the block's sums. `at` is the first element.
template <ColumnGate kGate, std::int64_t R, class T>
NEAP_VM void sum_rows(const View<T>& a, const Tables& t, std::int64_t at, std::int64_t stride, std::int64_t first,
                      std::int64_t width, float* sum, float* product) {
  for (std::int64_t c = 0; c < width; c += kLanes) {
    const std::int64_t n = lanes_at(c, width);
    const Gate<kGate> gate(t, first + c, n);
    const vf mean = load_lanes(t.mean + first + c, n);
    vf g_part{};
    vf product_part{};
#pragma GCC unroll 4
    for (std::int64_t r = 0; r < R; ++r) {
      const std::int64_t e = at + r * stride + first + c;
      const vf centred = load_lanes(a.x + e, n) - mean;
      const vf g = gate(load_lanes(a.dy + e, n), centred, a.mask, e, n);
      g_part += g;
      product_part = vfma(g, centred, product_part);
    }
    store_lanes(sum + c, load_lanes(sum + c, n) + g_part, n);
    store_lanes(product + c, load_lanes(product + c, n) + product_part, n);
  }
}

template <ColumnGate kGate, class T>
void sum_part(const Columns& s, const ColumnGradient& a, std::int64_t part, std::int64_t c, double* out) {
  const std::int64_t width = least(kBlockColumns, s.c - c);
  const std::int64_t image = part / s.parts;
  const std::int64_t first = part % s.parts * s.part_rows;
  const std::int64_t last = least(first + s.part_rows, s.rows);
  const Tables t(a, image);
  const View<T> view(a);
  double total[2 * kBlockColumns] = {};
  for (std::int64_t block = first; block < last; block += kBlockRows) {
    float sum[2 * kBlockColumns] = {};
    const std::int64_t end = least(block + kBlockRows, last);
    std::int64_t r = block;
    for (; r + kRowsTogether <= end; r += kRowsTogether) {
      sum_rows<kGate, kRowsTogether>(view, t, (image * s.rows + r) * s.c, s.c, c, width, sum, sum + kBlockColumns);
    }
    for (; r < end; ++r) {
      sum_rows<kGate, 1>(view, t, (image * s.rows + r) * s.c, s.c, c, width, sum, sum + kBlockColumns);
    }
    for (std::int64_t j = 0; j < 2 * kBlockColumns; ++j) total[j] += sum[j];
  }
  for (std::int64_t j = 0; j < width; ++j) out[j] = total[j];
  for (std::int64_t j = 0; j < width; ++j) out[s.c + j] = total[kBlockColumns + j];
}

template <ColumnGate kGate, class T>
void sum_all(const Columns& s, const ColumnGradient& a, double* partial) {
  const std::int64_t chunks = (s.c + kBlockColumns - 1) / kBlockColumns;
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < s.images * s.parts * chunks; ++i) {
    const std::int64_t c = i % chunks * kBlockColumns;
    sum_part<kGate, T>(s, a, i / chunks, c, partial + i / chunks * 2 * s.c + c);
  }
}

// R rows' dx and g.
template <ColumnGate kGate, bool kReadsX, std::int64_t R, class T>
NEAP_VM void gradient_rows(const View<T>& a, const Tables& t, std::int64_t at, std::int64_t columns) {
  for (std::int64_t c = 0; c < columns; c += kLanes) {
    const std::int64_t n = lanes_at(c, columns);
    const Gate<kGate> gate(t, c, n);
    const vf mean = kReadsX ? load_lanes(t.mean + c, n) : vf{};
    const vf k0 = load_lanes(t.k0 + c, n);
    const vf k1 = column(t.k1, c, n, 0);
    const vf k2 = column(t.k2, c, n, 0);
#pragma GCC unroll 4
    for (std::int64_t r = 0; r < R; ++r) {
      const std::int64_t e = at + r * columns + c;
      const vf centred = kReadsX ? load_lanes(a.x + e, n) - mean : vf{};
      const vf g = gate(load_lanes(a.dy + e, n), centred, a.mask, e, n);
      if (a.dx != nullptr) store_lanes(a.dx + e, t.k2 != nullptr ? k0 * g - vfma(centred, k2, k1) : k0 * g, n);
      if (a.g != nullptr) store_lanes(a.g + e, g, n);
    }
  }
}

template <ColumnGate kGate, bool kReadsX, class T>
void gradient_all(const Columns& s, const ColumnGradient& a) {
  const View<T> view(a);
  const std::int64_t groups = (s.rows + kRowsTogether - 1) / kRowsTogether;
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < s.images * groups; ++i) {
    const std::int64_t image = i / groups;
    const std::int64_t first = i % groups * kRowsTogether;
    const std::int64_t at = (image * s.rows + first) * s.c;
    const Tables t(a, image);
    if (first + kRowsTogether <= s.rows) {
      gradient_rows<kGate, kReadsX, kRowsTogether>(view, t, at, s.c);
    } else {
      for (std::int64_t r = first; r < s.rows; ++r)
        gradient_rows<kGate, kReadsX, 1>(view, t, at + (r - first) * s.c, s.c);
    }
  }
}

template <class T>
void sums_as(const Columns& s, const ColumnGradient& a, double* partial) {
  switch (a.gate) {
    case ColumnGate::kOpen: return sum_all<ColumnGate::kOpen, T>(s, a, partial);
    case ColumnGate::kMask: return sum_all<ColumnGate::kMask, T>(s, a, partial);
    case ColumnGate::kSign: return sum_all<ColumnGate::kSign, T>(s, a, partial);
  }
}

template <class T>
void gradient_as(const Columns& s, const ColumnGradient& a) {
  using enum ColumnGate;
  const bool reads_x = a.x != nullptr;
  switch (a.gate) {
    case kOpen: return reads_x ? gradient_all<kOpen, true, T>(s, a) : gradient_all<kOpen, false, T>(s, a);
    case kMask: return reads_x ? gradient_all<kMask, true, T>(s, a) : gradient_all<kMask, false, T>(s, a);
    case kSign: return gradient_all<kSign, true, T>(s, a);
  }
}

}  // namespace

void column_sums(const Columns& s, const ColumnGradient& a, double* partial) {
  a.is_narrow ? sums_as<std::uint16_t>(s, a, partial) : sums_as<float>(s, a, partial);
}

void column_gradient(const Columns& s, const ColumnGradient& a) {
  a.is_narrow ? gradient_as<std::uint16_t>(s, a) : gradient_as<float>(s, a);
}

}  // namespace neap::NEAP_ISA_NS
