// Part of gemm_simd.cc: copies of B in panels, and of a few rows of A.
#pragma once

#include "device/cpu/gemm_kernel.h"

namespace neap::NEAP_ISA_NS {
namespace {

// Row i, lane j to row j, lane i: at each step, lanes whose number has the bit `half` change places with rows that
// have it.
NEAP_VM void transpose(vf (&rows)[kLanes]) {
#pragma GCC unroll 4
  for (int half = 1; half < kLanes; half *= 2) {
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) {
      if ((i & half) != 0) continue;
      const vf upper = rows[i];
      const vf lower = rows[i + half];
      const vi lane = vlane();
      rows[i] = __builtin_shuffle(upper, lower, (lane & half) != 0 ? (lane ^ half) + kLanes : lane);
      rows[i + half] = __builtin_shuffle(upper, lower, (lane & half) != 0 ? lane + kLanes : lane ^ half);
    }
  }
}

// Columns [0, columns) of k rows at b, not transposed; the rest of the panel is zero.
inline void pack_panel_by_row(const float* b, std::int64_t ld, std::int64_t k, std::int64_t columns, float* dst) {
  if (columns == kPanel) {
    for (std::int64_t p = 0; p < k; ++p, b += ld, dst += kPanel) {
      vstore(dst, vload(b));
      vstore(dst + kLanes, vload(b + kLanes));
    }
    return;
  }
  const std::int64_t first = columns < kLanes ? columns : kLanes;
  for (std::int64_t p = 0; p < k; ++p, b += ld, dst += kPanel) {
    vstore(dst, vload_n(b, first));
    vstore(dst + kLanes, columns > kLanes ? vload_n(b + kLanes, columns - kLanes) : vf{});
  }
}

// Half a panel from a transposed b: `columns` rows of memory, k elements each.
inline void pack_half_by_column(const float* b, std::int64_t ld, std::int64_t k, std::int64_t columns, float* dst) {
  std::int64_t p = 0;
  for (; p < k; p += kLanes) {
    const std::int64_t rows = k - p < kLanes ? k - p : kLanes;
    vf block[kLanes];
#pragma GCC unroll 16
    for (int j = 0; j < kLanes; ++j) {
      block[j] = j >= columns ? vf{} : rows == kLanes ? vload(b + j * ld + p) : vload_n(b + j * ld + p, rows);
    }
    transpose(block);
    for (std::int64_t r = 0; r < rows; ++r) vstore(dst + (p + r) * kPanel, block[r]);
  }
}

inline void pack_panel(const GemmOperand& b, std::int64_t k, std::int64_t columns, float* dst) {
  if (!b.transposed) return pack_panel_by_row(b.data, b.ld, k, columns, dst);
  pack_half_by_column(b.data, b.ld, k, columns, dst);
  pack_half_by_column(b.data + kLanes * b.ld, b.ld, k, columns - kLanes, dst + kLanes);
}

// From (row, column) on.
NEAP_VM GemmOperand corner(const GemmOperand& x, std::int64_t row, std::int64_t column) {
  return {x.data + (x.transposed ? column * x.ld + row : row * x.ld + column), x.ld, x.transposed};
}

inline void pack_panels(const GemmOperand& b, std::int64_t k, std::int64_t n, float* packed) {
  for (std::int64_t j = 0; j < n; j += kPanel) {
    pack_panel(corner(b, 0, j), k, n - j < kPanel ? n - j : kPanel, packed + j * k);
  }
}

// Rows of the copy are this far apart: neighbours fall into different sets of the L1 cache.
constexpr std::int64_t kCopyStride = kGemmBlockK + 16;
constexpr std::int64_t kCopyFloats = kTileRows * kCopyStride;

inline void copy_rows(const float* a, std::int64_t ld, std::int64_t rows, std::int64_t k, float alpha, float* dst) {
  for (std::int64_t i = 0; i < rows; ++i, a += ld, dst += kCopyStride) {
    std::int64_t p = 0;
    for (; p + kLanes <= k; p += kLanes) vstore(dst + p, vload(a + p) * alpha);
    vstore(dst + p, vload_n(a + p, k - p) * alpha);
  }
}

// Elements for one k side by side; a is transposed, so that they are side by side there too.
inline void copy_columns(const float* a, std::int64_t ld, std::int64_t rows, std::int64_t k, float alpha, float* dst) {
  for (std::int64_t p = 0; p < k; ++p, a += ld, dst += rows) {
    for (std::int64_t i = 0; i < rows; i += kLanes) {
      // Lanes beyond `rows` are overwritten by the next k; the buffer has room for the last.
      vstore(dst + i, vload_n(a + i, rows - i < kLanes ? rows - i : kLanes) * alpha);
    }
  }
}

}  // namespace
}  // namespace neap::NEAP_ISA_NS
