// Part of gemm_simd.cc: a copy of B in panels.
#pragma once

#include "device/cpu/gemm_kernel.h"

namespace neap::NEAP_ISA_NS {
namespace {

// Lanes of a (below kLanes) and b (from there on).
NEAP_VM vf pick(vf a, vf b, vi lanes) { return __builtin_shuffle(a, b, lanes); }

// The 4 x 4 blocks of four rows, each in its place: the form of unpcklps and unpcklpd.
NEAP_VM void transpose_quads(vf* r) {
  const vi lane = vlane();
  const vi quad = lane & ~3;
  const vi ones = quad + ((lane & 2) >> 1) + (lane & 1) * kLanes;
  const vi twos = quad + (lane & 1) + ((lane & 2) >> 1) * kLanes;
  const vf low01 = pick(r[0], r[1], ones), high01 = pick(r[0], r[1], ones + 2);
  const vf low23 = pick(r[2], r[3], ones), high23 = pick(r[2], r[3], ones + 2);
  r[0] = pick(low01, low23, twos);
  r[1] = pick(low01, low23, twos + 2);
  r[2] = pick(high01, high23, twos);
  r[3] = pick(high01, high23, twos + 2);
}

// Row i, lane j to row j, lane i.
NEAP_VM void transpose(vf (&rows)[kLanes]) {
#pragma GCC unroll 4
  for (int i = 0; i < kLanes; i += 4) transpose_quads(rows + i);
#if defined(__AVX512F__)
  const vi lane = vlane();
  // Quads q of rows c, 4 + c, 8 + c, 12 + c are one row of the result, 4 q + c: the forms of vshuff32x4.
  const vi low = (lane & 7) + (lane >> 3) * kLanes;
  const vi even = (lane & 3) + ((lane >> 2) & 1) * 8 + (lane >> 3) * kLanes;
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const vf low01 = pick(rows[c], rows[4 + c], low), high01 = pick(rows[c], rows[4 + c], low + 8);
    const vf low23 = pick(rows[8 + c], rows[12 + c], low), high23 = pick(rows[8 + c], rows[12 + c], low + 8);
    rows[c] = pick(low01, low23, even);
    rows[4 + c] = pick(low01, low23, even + 4);
    rows[8 + c] = pick(high01, high23, even);
    rows[12 + c] = pick(high01, high23, even + 4);
  }
#elif defined(__AVX2__)
  const vi lane = vlane();
  const vi low = (lane & 3) + (lane >> 2) * kLanes;
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const vf first = pick(rows[c], rows[4 + c], low);
    rows[4 + c] = pick(rows[c], rows[4 + c], low + 4);
    rows[c] = first;
  }
#endif
}

// Rows of b, not transposed, into `panels` whole panels side by side: b is read along its rows.
inline void pack_whole_panels(const float* b, std::int64_t ld, std::int64_t k, std::int64_t panels, float* dst) {
  for (std::int64_t p = 0; p < k; ++p, b += ld, dst += kPanel) {
    for (std::int64_t j = 0; j < panels; ++j) {
      vstore(dst + j * kPanel * k, vload(b + j * kPanel));
      vstore(dst + j * kPanel * k + kLanes, vload(b + j * kPanel + kLanes));
    }
  }
}

// A narrower panel of it; the other columns are zero.
inline void pack_narrow_panel(const float* b, std::int64_t ld, std::int64_t k, std::int64_t columns, float* dst) {
  const std::int64_t first = columns < kLanes ? columns : kLanes;
  for (std::int64_t p = 0; p < k; ++p, b += ld, dst += kPanel) {
    vstore(dst, vload_n(b, first));
    vstore(dst + kLanes, columns > kLanes ? vload_n(b + kLanes, columns - kLanes) : vf{});
  }
}

NEAP_VM void store_rows(const vf (&block)[kLanes], float* dst) {
#pragma GCC unroll 16
  for (int r = 0; r < kLanes; ++r) vstore(dst + r * kPanel, block[r]);
}

// Half a panel from a transposed b: `columns` rows of memory (any beyond kLanes are another half's), k elements each.
inline void pack_half_by_column(const float* b, std::int64_t ld, std::int64_t k, std::int64_t columns, float* dst) {
  std::int64_t p = 0;
  vf block[kLanes];
  for (; columns >= kLanes && p + kLanes <= k; p += kLanes) {
#pragma GCC unroll 16
    for (int j = 0; j < kLanes; ++j) block[j] = vload(b + j * ld + p);
    transpose(block);
    store_rows(block, dst + p * kPanel);
  }
  for (; p < k; p += kLanes) {
    const std::int64_t rows = k - p < kLanes ? k - p : kLanes;
#pragma GCC unroll 16
    for (int j = 0; j < kLanes; ++j) block[j] = j < columns ? vload_n(b + j * ld + p, rows) : vf{};
    transpose(block);
    for (std::int64_t r = 0; r < rows; ++r) vstore(dst + (p + r) * kPanel, block[r]);
  }
}

// From (row, column) on.
NEAP_VM GemmOperand corner(const GemmOperand& x, std::int64_t row, std::int64_t column) {
  return {x.data + (x.transposed ? column * x.ld + row : row * x.ld + column), x.ld, x.transposed};
}

inline void pack_by_row(const float* b, std::int64_t ld, std::int64_t k, std::int64_t n, float* packed) {
  constexpr std::int64_t kGroup = 8;  // panels: as many streams of stores as the CPU keeps apart
  const std::int64_t whole = n / kPanel;
  for (std::int64_t j = 0; j < whole; j += kGroup) {
    const std::int64_t panels = whole - j < kGroup ? whole - j : kGroup;
    pack_whole_panels(b + j * kPanel, ld, k, panels, packed + j * kPanel * k);
  }
  const std::int64_t done = whole * kPanel;
  if (done < n) pack_narrow_panel(b + done, ld, k, n - done, packed + done * k);
}

inline void pack_panels(const GemmOperand& b, std::int64_t k, std::int64_t n, float* packed) {
  if (!b.transposed) return pack_by_row(b.data, b.ld, k, n, packed);
  for (std::int64_t j = 0; j < n; j += kPanel) {
    const float* from = b.data + j * b.ld;
    pack_half_by_column(from, b.ld, k, n - j, packed + j * k);
    pack_half_by_column(from + kLanes * b.ld, b.ld, k, n - j - kLanes, packed + j * k + kLanes);
  }
}

}  // namespace
}  // namespace neap::NEAP_ISA_NS
