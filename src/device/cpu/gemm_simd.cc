#include "device/cpu/gemm_simd.h"

#include "device/cpu/gemm_rows.h"
#include "device/cpu/gemm_skinny.h"

namespace neap::NEAP_ISA_NS {
namespace {

// Blocks of k, as equal as can be. The chain of sums goes through C, exactly, so their size changes no bit.
NEAP_VM std::int64_t block_of(std::int64_t k) {
  const std::int64_t count = (k + kGemmBlockK - 1) / kGemmBlockK;
  return (k + count - 1) / count;
}

NEAP_VM std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

// A block of B: panels one after another, or (b_stride = ld, panel_stride = kPanel) B itself.
struct PanelBlock {
  const float* data;
  std::int64_t panel_stride, b_stride;
  std::int64_t k, n;
};

inline void multiply_tiles(const RowTiles& tiles, const PanelBlock& b, const GemmOutput& c) {
  const float* panel = b.data;
  for (std::int64_t j = 0; j < b.n; j += kPanel, panel += b.panel_stride) {
    const std::int64_t columns = b.n - j;
    for (std::int64_t t = 0; t < tiles.count; ++t) {
      const RowTile& r = tiles.tile[t];
      float* to = c.data + r.first * c.ld + j;
      const Tile tile = {r.a, r.a_stride, panel, b.b_stride, b.k, to, c.ld, c.accumulate};
      if (columns >= kPanel) {
        r.functions[1](tile);
      } else {
        multiply_narrow(r.functions[columns > kLanes], tile, r.rows, columns);
      }
    }
  }
}

// All rows of A against one block of B. A is read where it lies, unless it must be scaled or its columns collide.
inline void multiply_block(std::int64_t m, const GemmOperand& a, const PanelBlock& b, const GemmOutput& c,
                           float alpha) {
  alignas(64) float copy[kCopyFloats];
  const bool copies = alpha != 1 || (a.transposed && lines_collide(a.ld));
  std::int64_t left = (m + tile_rows(a) - 1) / tile_rows(a);
  for (std::int64_t row = 0; row < m;) {
    RowTiles tiles = next_tiles(a, row, m - row, left);
    if (copies) copy_tiles(tiles, a.transposed, m, b.k, alpha, copy);
    multiply_tiles(tiles, b, c);
    left -= tiles.count;
    row = tiles.tile[tiles.count - 1].first + tiles.tile[tiles.count - 1].rows;
  }
}

inline void clear(const GemmShape& shape, const GemmOutput& c) {
  if (c.accumulate) return;
  for (std::int64_t i = 0; i < shape.m; ++i) {
    for (std::int64_t j = 0; j < shape.n; ++j) c.data[i * c.ld + j] = 0;
  }
}

NEAP_VM GemmOutput columns_from(const GemmOutput& c, std::int64_t column, bool accumulate) {
  return {c.data + column, c.ld, accumulate};
}

void packed(const GemmShape& shape, const GemmOperand& a, const float* packed_b, const GemmOutput& c, float alpha) {
  if (shape.k == 0) return clear(shape, c);
  const std::int64_t step = block_of(shape.k);
  for (std::int64_t p = 0; p < shape.k; p += step) {
    const PanelBlock b = {packed_b + p * kPanel, kPanel * shape.k, kPanel, smaller(step, shape.k - p), shape.n};
    multiply_block(shape.m, corner(a, 0, p), b, columns_from(c, 0, c.accumulate || p > 0), alpha);
  }
}

// Each row of B is read in one go where the panels' way, 128 bytes at a time, is slow: many columns, few rows.
NEAP_VM bool is_skinny(const GemmShape& shape, const GemmOperand& b) {
  return !b.transposed && (shape.m == 1 || (shape.m <= kSkinnyRows && shape.n >= 1024));
}

// Below this many rows, packing costs more than it saves.
constexpr std::int64_t kPackFromRows = 112;

void plain(const GemmShape& shape, const GemmOperand& a, const GemmOperand& b, const GemmOutput& c, float* scratch,
           float alpha) {
  if (shape.k == 0) return clear(shape, c);
  if (is_skinny(shape, b)) return multiply_skinny(shape, a, b, c, alpha);
  const std::int64_t step = block_of(shape.k);
  const bool in_place = !b.transposed && shape.m < kPackFromRows;
  for (std::int64_t j = 0; j < shape.n; j += kGemmBlockN) {
    const std::int64_t n = smaller(kGemmBlockN, shape.n - j);
    const std::int64_t whole = in_place ? n - n % kPanel : 0;  // columns that need no packing
    for (std::int64_t p = 0; p < shape.k; p += step) {
      const std::int64_t k = smaller(step, shape.k - p);
      const bool accumulate = c.accumulate || p > 0;
      const GemmOperand here = corner(b, p, j);
      const GemmOperand left = corner(a, 0, p);
      if (whole > 0) {
        multiply_block(shape.m, left, {here.data, kPanel, b.ld, k, whole}, columns_from(c, j, accumulate), alpha);
      }
      if (whole == n) continue;
      pack_panels(corner(here, 0, whole), k, n - whole, scratch);
      multiply_block(shape.m, left, {scratch, kPanel * k, kPanel, k, n - whole}, columns_from(c, j + whole, accumulate),
                     alpha);
    }
  }
}

}  // namespace

const GemmTable& gemm_table() {
  static constexpr GemmTable table = {pack_panels, packed, plain};
  return table;
}

}  // namespace neap::NEAP_ISA_NS
