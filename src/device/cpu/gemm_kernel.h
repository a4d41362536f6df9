// Part of gemm_simd.cc: the product of a few rows of A with one panel of B, summed in registers.
#pragma once

#include "device/cpu/vmath_vector.h"

namespace neap::NEAP_ISA_NS {
namespace {

// A panel is two vectors wide. Two rows of registers hold it, one the element of A; the others are for sums.
constexpr int kPanel = 2 * kLanes;
#if defined(__AVX512F__)
constexpr int kTileRows = 14;
#else
constexpr int kTileRows = 6;
#endif

struct Tile {
  const float* a;
  std::int64_t a_stride;  // between rows of A; unused where a column of A is contiguous
  const float* b;
  std::int64_t b_stride;  // between rows of the panel
  std::int64_t k;         // > 0
  float* c;
  std::int64_t c_stride;
  bool accumulate;
};

// Where the elements of A for one k lie. Rows are reached from a pointer to every fourth of them, so that addresses
// fit into the registers there are.
template <int kRows>
struct RowsOfA {
  static constexpr int kBases = (kRows + 3) / 4;
  const float* base[kBases];
  std::int64_t stride, stride3;

  NEAP_VM explicit RowsOfA(const Tile& t) : stride(t.a_stride), stride3(3 * t.a_stride) {
#pragma GCC unroll 4
    for (int g = 0; g < kBases; ++g) {
      base[g] = t.a + 4 * g * stride;
      __asm__("" : "+r"(base[g]));  // keeps the compiler from deriving one pointer from another
    }
    __asm__("" : "+r"(stride3));
  }
  NEAP_VM float row(int i) const {
    const int r = i % 4;
    return base[i / 4][r == 0 ? 0 : r == 1 ? stride : r == 2 ? 2 * stride : stride3];
  }
  NEAP_VM void next() {
#pragma GCC unroll 4
    for (int g = 0; g < kBases; ++g) ++base[g];
  }
};

// A copied so that the kRows elements for one k are side by side.
template <int kRows>
struct ColumnsOfA {
  const float* at;
  std::int64_t stride;

  NEAP_VM explicit ColumnsOfA(const Tile& t) : at(t.a), stride(t.a_stride) {}
  NEAP_VM float row(int i) const { return at[i]; }
  NEAP_VM void next() { at += stride; }
};

// How products are added to a sum.
struct Fma {
  NEAP_VM static vf add(vf x, vf y, vf sum) { return vfma(x, y, sum); }
};

template <class Dot, int kRows, int kVectors, class A>
NEAP_VM void multiply_add(A& a, const float*& b, std::int64_t b_stride, vf (&sum)[kRows][kVectors]) {
  vf panel[kVectors];
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) {
    panel[v] = vload(b + v * kLanes);
    if (kRows > 1) __asm__("" : "+v"(panel[v]));  // loaded once, not again for every row
  }
#pragma GCC unroll 14
  for (int i = 0; i < kRows; ++i) {
    const vf x = vset(a.row(i));
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sum[i][v] = Dot::add(x, panel[v], sum[i][v]);
  }
  a.next();
  b += b_stride;
}

template <class Dot, int kRows, int kVectors, class A>
void multiply_tile(const Tile& t) {
  vf sum[kRows][kVectors];
#pragma GCC unroll 14
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sum[i][v] = vf{};
  }
  if (t.accumulate) {
#pragma GCC unroll 14
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sum[i][v] = vload(t.c + i * t.c_stride + v * kLanes);
    }
  }
  A a(t);
  const float* b = t.b;
  const std::int64_t b_stride = t.b_stride;
  std::int64_t left = t.k;
  if constexpr (kRows <= 3) {
    for (; left >= 4; left -= 4) {
#pragma GCC unroll 4
      for (int step = 0; step < 4; ++step) multiply_add<Dot, kRows, kVectors>(a, b, b_stride, sum);
    }
  }
  for (; left > 0; --left) multiply_add<Dot, kRows, kVectors>(a, b, b_stride, sum);
#pragma GCC unroll 14
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) vstore(t.c + i * t.c_stride + v * kLanes, sum[i][v]);
  }
}

using TileFunction = void (*)(const Tile&);

// [rows - 1], [vectors - 1]
struct TileFunctions {
  TileFunction by_row[kTileRows][2];
  TileFunction by_column[kTileRows][2];
};

template <class Dot, int kRows = kTileRows>
constexpr void list_tiles(TileFunctions& all) {
  all.by_row[kRows - 1][0] = multiply_tile<Dot, kRows, 1, RowsOfA<kRows>>;
  all.by_row[kRows - 1][1] = multiply_tile<Dot, kRows, 2, RowsOfA<kRows>>;
  all.by_column[kRows - 1][0] = multiply_tile<Dot, kRows, 1, ColumnsOfA<kRows>>;
  all.by_column[kRows - 1][1] = multiply_tile<Dot, kRows, 2, ColumnsOfA<kRows>>;
  if constexpr (kRows > 1) list_tiles<Dot, kRows - 1>(all);
}

template <class Dot>
constexpr TileFunctions all_tiles() {
  TileFunctions all{};
  list_tiles<Dot>(all);
  return all;
}

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

}  // namespace
}  // namespace neap::NEAP_ISA_NS
