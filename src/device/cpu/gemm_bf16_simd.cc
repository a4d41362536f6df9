#include "device/cpu/gemm_bf16_simd.h"

#include "device/cpu/gemm_pack.h"
#include "device/cpu/gemm_simd.h"
#include "device/cpu/vdot.h"

namespace neap::NEAP_ISA_NS {

#if defined(__AVX512F__)

namespace {

struct PairDot {
  NEAP_VM static vf add(vf x, vf y, vf sum) { return vdot_pairs(sum, as_bits(x), as_bits(y)); }
};
constexpr TileFunctions kPairTiles = all_tiles<PairDot>();

NEAP_VM std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
NEAP_VM std::int64_t pairs_of(std::int64_t k) { return (k + 1) / 2; }

// n lanes of an operand from element `at` on, as bf16; none where n is not positive.
NEAP_VM vh halves(const GemmOperand& x, std::int64_t at, std::int64_t n) {
  if (n <= 0) return vh{};
  const float* p = gemm_element(x, at);
  if (x.is_bf16) {
    const auto* h = reinterpret_cast<const std::uint16_t*>(p);
    return n >= kLanes ? vload_as<vh>(h) : vload_half_n(h, n);
  }
  return to_bf16(n >= kLanes ? vload(p) : vload_n(p, n));
}

// `pairs` pairs that lie behind each other; beyond `n` elements they are zero.
NEAP_VM vf pairs_along(const GemmOperand& x, std::int64_t at, std::int64_t n) {
  struct Two {
    vh low, high;
  } two = {halves(x, at, n), halves(x, at + kLanes, n - kLanes)};
  return vload_as<vf>(&two);
}

// Pairs of lines `at` and `at` + ld of memory, n lanes; the second line is zero unless it counts.
NEAP_VM vf pairs_across(const GemmOperand& x, std::int64_t at, std::int64_t n, bool counts) {
  return as_float(vpairs(halves(x, at, n), counts ? halves(x, at + x.ld, n) : vh{}));
}

// B's lines lie along n: a panel's rows are pairs of them.
inline void pack_by_row(const GemmOperand& b, std::int64_t k, std::int64_t n, float* packed) {
  const std::int64_t pairs = pairs_of(k);
  for (std::int64_t p = 0; p < pairs; ++p) {
    for (std::int64_t j = 0; j < n; j += kPanel) {
      float* to = packed + j * pairs + p * kPanel;
      vstore(to, pairs_across(b, 2 * p * b.ld + j, n - j, 2 * p + 1 < k));
      vstore(to + kLanes, pairs_across(b, 2 * p * b.ld + j + kLanes, n - j - kLanes, 2 * p + 1 < k));
    }
  }
}

// B's lines lie along k: blocks of 16 columns and 16 pairs are turned.
inline void pack_by_column(const GemmOperand& b, std::int64_t k, std::int64_t n, float* packed) {
  const std::int64_t pairs = pairs_of(k);
  for (std::int64_t j = 0; j < n; j += kLanes) {
    float* to = packed + j / kPanel * kPanel * pairs + j % kPanel;
    for (std::int64_t p = 0; p < pairs; p += kLanes) {
      vf block[kLanes];
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) {
        block[i] = j + i < n ? pairs_along(b, (j + i) * b.ld + 2 * p, k - 2 * p) : vf{};
      }
      transpose(block);
      const std::int64_t rows = smaller(kLanes, pairs - p);
      for (std::int64_t r = 0; r < rows; ++r) vstore(to + (p + r) * kPanel, block[r]);
    }
    if (j % kPanel == 0 && j + kLanes >= n) {  // the other half of the last panel
      for (std::int64_t p = 0; p < pairs; ++p) vstore(to + p * kPanel + kLanes, vf{});
    }
  }
}

void pack_b(const GemmOperand& b, std::int64_t k, std::int64_t n, float* packed) {
  b.transposed ? pack_by_column(b, k, n, packed) : pack_by_row(b, k, n, packed);
}

// A few tiles of A are copied as pairs, then each panel of B is used for all of them.
constexpr std::int64_t kGroupTiles = 4;
constexpr std::int64_t kCopyStride = kGemmBlockK + 16;  // neighbours fall into different sets of the L1 cache
constexpr std::int64_t kCopyFloats = kTileRows * kCopyStride;

// Rows [row, row + rows) of A, pairs of its columns from k0 on.
inline void copy_rows(const GemmOperand& a, std::int64_t row, std::int64_t rows, std::int64_t k0, std::int64_t k,
                      float* dst) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t p = 0; p < pairs_of(k); p += kLanes) {
      vstore(dst + i * kCopyStride + p, pairs_along(a, (row + i) * a.ld + k0 + 2 * p, k - 2 * p));
    }
  }
}

// The same of a transposed A, `rows` pairs side by side for each step; lanes beyond them are overwritten by the next.
inline void copy_columns(const GemmOperand& a, std::int64_t row, std::int64_t rows, std::int64_t k0, std::int64_t k,
                         float* dst) {
  for (std::int64_t p = 0; p < pairs_of(k); ++p) {
    vstore(dst + p * rows, pairs_across(a, (k0 + 2 * p) * a.ld + row, rows, 2 * p + 1 < k));
  }
}

// All rows of A against n columns of packed panels, columns [k0, k0 + k) of A.
inline void multiply_block(const GemmShape& shape, const GemmOperand& a, std::int64_t k0, std::int64_t k,
                           const float* panels, std::int64_t panel_stride, const GemmOutput& c) {
  alignas(64) float copy[kGroupTiles * kCopyFloats];
  const auto& functions = a.transposed ? kPairTiles.by_column : kPairTiles.by_row;
  std::int64_t left = (shape.m + kTileRows - 1) / kTileRows;
  for (std::int64_t row = 0; row < shape.m;) {
    std::int64_t first[kGroupTiles + 1] = {row};
    std::int64_t tiles = 0;
    for (; tiles < kGroupTiles && first[tiles] < shape.m; ++tiles, --left) {
      const std::int64_t rows = (shape.m - first[tiles] + left - 1) / left;
      float* to = copy + tiles * kCopyFloats;
      (a.transposed ? copy_columns : copy_rows)(a, first[tiles], rows, k0, k, to);
      first[tiles + 1] = first[tiles] + rows;
    }
    for (std::int64_t j = 0; j < shape.n; j += kPanel) {
      const float* panel = panels + j / kPanel * panel_stride;
      const std::int64_t columns = shape.n - j;
      for (std::int64_t t = 0; t < tiles; ++t) {
        const std::int64_t rows = first[t + 1] - first[t];
        const Tile tile = {copy + t * kCopyFloats,
                           a.transposed ? rows : kCopyStride,
                           panel,
                           kPanel,
                           pairs_of(k),
                           c.data + first[t] * c.ld + j,
                           c.ld,
                           c.accumulate};
        if (columns >= kPanel) {
          functions[rows - 1][1](tile);
        } else {
          multiply_narrow(functions[rows - 1][columns > kLanes], tile, rows, columns);
        }
      }
    }
    row = first[tiles];
  }
}

constexpr std::int64_t kBlockK = 2 * kGemmBlockK;

inline void clear(const GemmShape& shape, const GemmOutput& c) {
  if (c.accumulate) return;
  for (std::int64_t i = 0; i < shape.m; ++i) {
    for (std::int64_t j = 0; j < shape.n; ++j) c.data[i * c.ld + j] = 0;
  }
}

void packed(const GemmShape& shape, const GemmOperand& a, const float* panels, const GemmOutput& c) {
  if (shape.k == 0) return clear(shape, c);
  for (std::int64_t p = 0; p < shape.k; p += kBlockK) {
    multiply_block(shape, a, p, smaller(kBlockK, shape.k - p), panels + p / 2 * kPanel, kPanel * pairs_of(shape.k),
                   {c.data, c.ld, c.accumulate || p > 0});
  }
}

void plain(const GemmShape& shape, const GemmOperand& a, const GemmOperand& b, const GemmOutput& c, float* scratch) {
  if (shape.k == 0) return clear(shape, c);
  for (std::int64_t j = 0; j < shape.n; j += kGemmBlockN) {
    const std::int64_t n = smaller(kGemmBlockN, shape.n - j);
    for (std::int64_t p = 0; p < shape.k; p += kBlockK) {
      const std::int64_t k = smaller(kBlockK, shape.k - p);
      const std::int64_t at = b.transposed ? j * b.ld + p : p * b.ld + j;
      pack_b({gemm_element(b, at), b.ld, b.transposed, b.is_bf16}, k, n, scratch);
      multiply_block({shape.m, n, k}, a, p, k, scratch, kPanel * pairs_of(k),
                     {c.data + j, c.ld, c.accumulate || p > 0});
    }
  }
}

}  // namespace

const GemmBf16Table& gemm_bf16_table() {
  static constexpr GemmBf16Table kTable = {pack_b, packed, plain};
  return kTable;
}

#else

const GemmBf16Table& gemm_bf16_table() {
  static constexpr GemmBf16Table kTable = {nullptr, nullptr, nullptr};
  return kTable;
}

#endif

}  // namespace neap::NEAP_ISA_NS
