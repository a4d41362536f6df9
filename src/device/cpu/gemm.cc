#include "device/cpu/gemm.h"

#include <omp.h>

#include <algorithm>

#include "device/cpu/gemm_bf16_simd.h"
#include "device/cpu/gemm_simd.h"

namespace neap {
namespace {

std::int64_t panels_of(std::int64_t n) { return (n + kGemmPanel - 1) / kGemmPanel; }

// C in a grid of equal pieces, one a thread.
struct Grid {
  std::int64_t rows = 1, columns = 1;
};

std::int64_t piece(std::int64_t whole, std::int64_t parts) { return (whole + parts - 1) / parts; }

// The grid whose largest piece costs least. For each k, a piece reads its rows of A and packs its columns of B, which
// costs about as much as a few products.
Grid grid_for(const GemmShape& shape, int threads, bool packs) {
  constexpr std::int64_t kRead = 2;
  const std::int64_t pack = packs ? 4 : kRead;
  Grid best;
  std::int64_t least = 0;
  for (std::int64_t columns = std::min<std::int64_t>(threads, panels_of(shape.n)); columns >= 1; --columns) {
    const std::int64_t rows = std::min<std::int64_t>(threads / columns, shape.m);
    const std::int64_t m = piece(shape.m, rows);
    const std::int64_t n = piece(panels_of(shape.n), columns) * kGemmPanel;
    const std::int64_t cost = m * n + kRead * m + pack * n;
    if (least != 0 && cost >= least) continue;
    least = cost;
    best = {rows, columns};
  }
  return best;
}

struct Piece {
  std::int64_t row = 0, column = 0;
  GemmShape shape;
};

Piece piece_of(const GemmShape& shape, const Grid& grid, std::int64_t index) {
  const std::int64_t r = index % grid.rows;
  const std::int64_t c = index / grid.rows;
  Piece p;
  p.row = shape.m * r / grid.rows;
  p.column = std::min(shape.n, panels_of(shape.n) * c / grid.columns * kGemmPanel);
  const std::int64_t next_column = std::min(shape.n, panels_of(shape.n) * (c + 1) / grid.columns * kGemmPanel);
  p.shape = {shape.m * (r + 1) / grid.rows - p.row, next_column - p.column, shape.k, shape.bf16};
  return p;
}

GemmOperand corner(const GemmOperand& x, std::int64_t row, std::int64_t column) {
  const std::int64_t at = x.transposed ? column * x.ld + row : row * x.ld + column;
  return {gemm_element(x, at), x.ld, x.transposed, x.is_bf16};
}

GemmOutput corner(const GemmOutput& c, const Piece& p) {
  return {c.data + p.row * c.ld + p.column, c.ld, c.accumulate};
}

// One thread's share of the scratch, in floats: a packed B of the largest block, on a cache line.
std::int64_t scratch_floats(const GemmShape& shape) {
  const std::int64_t columns = std::min(panels_of(shape.n) * kGemmPanel, kGemmBlockN);
  return std::min(shape.k, kGemmBlockK) * columns;
}

bool empty(const GemmShape& shape) { return shape.m <= 0 || shape.n <= 0; }

}  // namespace

std::size_t packed_b_bytes(std::int64_t k, std::int64_t n) {
  return static_cast<std::size_t>(panels_of(n) * kGemmPanel * k) * sizeof(float);
}

const float* packed_columns(const float* packed, std::int64_t k, std::int64_t first, bool bf16) {
  return packed + first * (bf16 ? (k + 1) / 2 : k);
}

void pack_b(const GemmOperand& b, std::int64_t k, std::int64_t n, float* packed) {
  (b.is_bf16 ? gemm_bf16_table().pack_b : gemm_table().pack_b)(b, k, n, packed);
}

void pack_b_parallel(const GemmOperand& b, std::int64_t k, std::int64_t n, float* packed) {
#pragma omp parallel for schedule(static)
  for (std::int64_t panel = 0; panel < panels_of(n); ++panel) {
    const std::int64_t j = panel * kGemmPanel;
    pack_b(corner(b, 0, j), k, std::min(kGemmPanel, n - j), packed + j * (b.is_bf16 ? (k + 1) / 2 : k));
  }
}

void gemm_packed(const GemmShape& shape, const GemmOperand& a, const float* packed, const GemmOutput& c, float alpha) {
  if (empty(shape)) return;
  if (shape.bf16) return gemm_bf16_table().packed(shape, a, packed, c);
  gemm_table().packed(shape, a, packed, c, alpha);
}

void gemm_packed_parallel(const GemmShape& shape, const GemmOperand& a, const float* packed, const GemmOutput& c,
                          float alpha) {
  if (empty(shape)) return;
  const Grid grid = grid_for(shape, omp_get_max_threads(), false);
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < grid.rows * grid.columns; ++i) {
    const Piece p = piece_of(shape, grid, i);
    gemm_packed(p.shape, corner(a, p.row, 0), packed_columns(packed, shape.k, p.column, shape.bf16), corner(c, p),
                alpha);
  }
}

std::size_t gemm_scratch_bytes(const GemmShape& shape, int threads) {
  return static_cast<std::size_t>(scratch_floats(shape) * threads) * sizeof(float);
}

void gemm(const GemmShape& shape, const GemmOperand& a, const GemmOperand& b, const GemmOutput& c, float* scratch,
          float alpha) {
  if (empty(shape)) return;
  if (shape.bf16) return gemm_bf16_table().plain(shape, a, b, c, scratch);
  gemm_table().plain(shape, a, b, c, scratch, alpha);
}

void gemm_parallel(const GemmShape& shape, const GemmOperand& a, const GemmOperand& b, const GemmOutput& c,
                   float* scratch, float alpha) {
  if (empty(shape)) return;
  const Grid grid = grid_for(shape, omp_get_max_threads(), true);
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < grid.rows * grid.columns; ++i) {
    const Piece p = piece_of(shape, grid, i);
    gemm(p.shape, corner(a, p.row, 0), corner(b, 0, p.column), corner(c, p), scratch + scratch_floats(shape) * i,
         alpha);
  }
}

}  // namespace neap
