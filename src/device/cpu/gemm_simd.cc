#include "device/cpu/gemm_simd.h"

#include "device/cpu/gemm_pack.h"

namespace neap::NEAP_ISA_NS {
namespace {

// Blocks of k, as equal as can be. The chain of sums goes through C, exactly, so their size changes no bit.
struct Blocks {
  std::int64_t count, size;
};
NEAP_VM Blocks blocks_of(std::int64_t k) {
  const std::int64_t count = (k + kGemmBlockK - 1) / kGemmBlockK;
  return {count, (k + count - 1) / count};
}

NEAP_VM std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

// Rows that lie a multiple of half the L1 cache's way apart (2 KiB) push each other out.
NEAP_VM bool rows_collide(std::int64_t ld) {
  const std::int64_t past = static_cast<std::int64_t>(static_cast<std::uint64_t>(ld) * sizeof(float) % 2048);
  return past < 64 || past > 2048 - 64;
}

// A block of B: panels one after another, or (b_stride = ld, panel_stride = kPanel) B itself.
struct PanelBlock {
  const float* data;
  std::int64_t panel_stride, b_stride;
  std::int64_t k, n;
};

// The last panel may be narrower: it is computed beside C, of which no byte beyond its columns may be touched.
inline void multiply_narrow(TileFunction function, Tile tile, std::int64_t rows, std::int64_t columns) {
  float beside[kTileRows * kPanel] = {};
  float* c = tile.c;
  const std::int64_t c_stride = tile.c_stride;
  if (tile.accumulate) {
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) beside[i * kPanel + j] = c[i * c_stride + j];
    }
  }
  tile.c = beside;
  tile.c_stride = kPanel;
  function(tile);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) c[i * c_stride + j] = beside[i * kPanel + j];
  }
}

inline void multiply_panels(const TileFunction* functions, Tile tile, std::int64_t rows, const PanelBlock& b) {
  for (std::int64_t j = 0; j < b.n; j += kPanel, tile.b += b.panel_stride, tile.c += kPanel) {
    const std::int64_t columns = b.n - j;
    if (columns >= kPanel) {
      functions[1](tile);
    } else {
      multiply_narrow(functions[columns > kLanes], tile, rows, columns);
    }
  }
}

// All rows of A against one block of B.
inline void multiply_block(std::int64_t m, const GemmOperand& a, const PanelBlock& b, const GemmOutput& c,
                           float alpha) {
  alignas(64) float copy[kCopyFloats + kLanes];
  const bool in_place = !a.transposed && alpha == 1 && !rows_collide(a.ld);
  const std::int64_t tiles = (m + kTileRows - 1) / kTileRows;
  std::int64_t row = 0;
  for (std::int64_t t = 0; t < tiles; ++t) {
    const std::int64_t rows = m / tiles + (t < m % tiles ? 1 : 0);
    const GemmOperand from = corner(a, row, 0);
    Tile tile = {from.data, a.ld, b.data, b.b_stride, b.k, c.data + row * c.ld, c.ld, c.accumulate};
    const TileFunction* functions = kTiles.by_row[rows - 1];
    if (a.transposed) {
      copy_columns(from.data, a.ld, rows, b.k, alpha, copy);
      functions = kTiles.by_column[rows - 1];
    } else if (!in_place) {
      copy_rows(from.data, a.ld, rows, b.k, alpha, copy);
      tile.a_stride = kCopyStride;
    }
    if (!in_place) tile.a = copy;
    multiply_panels(functions, tile, rows, b);
    row += rows;
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
  const Blocks blocks = blocks_of(shape.k);
  for (std::int64_t j = 0; j < shape.n; j += kGemmBlockN) {
    for (std::int64_t p = 0; p < shape.k; p += blocks.size) {
      const PanelBlock b = {packed_b + j * shape.k + p * kPanel, kPanel * shape.k, kPanel,
                            smaller(blocks.size, shape.k - p), smaller(kGemmBlockN, shape.n - j)};
      multiply_block(shape.m, corner(a, 0, p), b, columns_from(c, j, c.accumulate || p > 0), alpha);
    }
  }
}

// Packing pays from the second tile of rows on, or where B must be transposed.
NEAP_VM bool reads_b_in_place(const GemmShape& shape, const GemmOperand& b) {
  return !b.transposed && shape.m <= kTileRows;
}

void plain(const GemmShape& shape, const GemmOperand& a, const GemmOperand& b, const GemmOutput& c, float* scratch,
           float alpha) {
  if (shape.k == 0) return clear(shape, c);
  const Blocks blocks = blocks_of(shape.k);
  const bool in_place = reads_b_in_place(shape, b);
  for (std::int64_t j = 0; j < shape.n; j += kGemmBlockN) {
    const std::int64_t n = smaller(kGemmBlockN, shape.n - j);
    const std::int64_t whole = in_place ? n - n % kPanel : 0;  // columns that need no packing
    for (std::int64_t p = 0; p < shape.k; p += blocks.size) {
      const std::int64_t k = smaller(blocks.size, shape.k - p);
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
