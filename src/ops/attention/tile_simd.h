// Products of small tiles, and their transposition, for attention's *_simd.cc files. Sums run over k in order.
#pragma once

#include "device/cpu/vmath.h"

namespace neap::NEAP_ISA_NS {
namespace {

constexpr std::int64_t kTile = 64;  // queries or keys of a tile; tiles of scores have this many columns
constexpr int kRows = 4;            // rows of sums in registers
constexpr int kVectors = kLanes == 16 ? 4 : 2;

NEAP_VM std::int64_t least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
NEAP_VM std::int64_t most(std::int64_t a, std::int64_t b) { return a > b ? a : b; }
NEAP_VM std::int64_t whole_vectors(std::int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

// C = [C +] A B. Element (row, k) of A is a[row * a_row + k * a_k]; rows of B can be read up to whole vectors.
struct TileProduct {
  const float* a;
  std::int64_t a_row, a_k;
  const float* b;
  std::int64_t b_row;
  std::int64_t k;
  float* c;
  std::int64_t c_row;
  bool accumulate;
};

template <int R, int V>
NEAP_VM void load_sums(vf (&sum)[R][V], const TileProduct& p, std::int64_t last) {
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
    const float* c = p.c + r * p.c_row;
#pragma GCC unroll 4
    for (int v = 0; v < V - 1; ++v) sum[r][v] = vload(c + v * kLanes);
    c += (V - 1) * kLanes;
    sum[r][V - 1] = last == kLanes ? vload(c) : vload_n(c, last);
  }
}

template <int R, int V>
NEAP_VM void store_sums(const vf (&sum)[R][V], const TileProduct& p, std::int64_t last) {
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
    float* c = p.c + r * p.c_row;
#pragma GCC unroll 4
    for (int v = 0; v < V - 1; ++v) vstore(c + v * kLanes, sum[r][v]);
    c += (V - 1) * kLanes;
    if (last == kLanes) {
      vstore(c, sum[r][V - 1]);
    } else {
      vstore_n(c, sum[r][V - 1], last);
    }
  }
}

// R rows, V vectors of columns, of the last of which `last` lanes count.
template <int R, int V>
[[gnu::noinline]] void multiply_tile(const TileProduct& p, std::int64_t last) {
  vf sum[R][V] = {};
  if (p.accumulate) load_sums<R, V>(sum, p, last);
  const float* a = p.a;
  const float* b = p.b;
  for (std::int64_t k = p.k; k > 0; --k) {
    vf row[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) row[v] = vload(b + v * kLanes);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const vf x = vset(a[r * p.a_row]);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sum[r][v] = vfma(x, row[v], sum[r][v]);
    }
    a += p.a_k;
    b += p.b_row;
  }
  store_sums<R, V>(sum, p, last);
}

using TileFunction = void (*)(const TileProduct&, std::int64_t);

template <int R>
NEAP_VM TileFunction tile_of(std::int64_t vectors) {
  if (kVectors == 4 && vectors >= 4) return multiply_tile<R, kVectors>;
  if (kVectors == 4 && vectors == 3) return multiply_tile < R, kVectors == 4 ? 3 : 1 > ;
  return vectors >= 2 ? multiply_tile<R, 2> : multiply_tile<R, 1>;
}

// Up to kRows rows, any number of columns.
inline void multiply_rows(TileProduct p, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t c = 0; c < columns; c += kVectors * kLanes) {
    const std::int64_t width = least(columns - c, kVectors * kLanes);
    const std::int64_t vectors = (width + kLanes - 1) / kLanes;
    const TileFunction run = rows == 4   ? tile_of<4>(vectors)
                             : rows == 3 ? tile_of<3>(vectors)
                             : rows == 2 ? tile_of<2>(vectors)
                                         : tile_of<1>(vectors);
    run(p, width - (vectors - 1) * kLanes);
    p.b += kVectors * kLanes;
    p.c += kVectors * kLanes;
  }
}

// Row i, lane j to row j, lane i: lanes whose number has the bit `half` change places with rows that have it.
NEAP_VM void transpose_lanes(vf (&rows)[kLanes]) {
  const vi lane = vlane();
#pragma GCC unroll 4
  for (int half = 1; half < kLanes; half *= 2) {
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) {
      if ((i & half) != 0) continue;
      const vf upper = rows[i];
      const vf lower = rows[i + half];
      rows[i] = __builtin_shuffle(upper, lower, (lane & half) != 0 ? (lane ^ half) + kLanes : lane);
      rows[i + half] = __builtin_shuffle(upper, lower, (lane & half) != 0 ? lane + kLanes : lane ^ half);
    }
  }
}

// dst[c][r] = scale * src[r][c]: dst has `columns` rows (rounded up to whole vectors) of kTile; rows beyond `rows`
// (at most kTile) are zero.
inline void transpose_tile(const float* src, std::int64_t stride, std::int64_t rows, std::int64_t columns, float scale,
                           float* dst) {
  for (std::int64_t r = 0; r < kTile; r += kLanes) {
    for (std::int64_t c = 0; c < columns; c += kLanes) {
      const std::int64_t lanes = least(columns - c, kLanes);
      vf block[kLanes];
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) {
        const float* from = src + (r + i) * stride + c;
        block[i] = r + i >= rows ? vf{} : lanes == kLanes ? vload(from) : vload_n(from, lanes);
      }
      transpose_lanes(block);
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) vstore(dst + (c + i) * kTile + r, block[i] * scale);
    }
  }
}

// dst[r] = scale * src[r], with zeros up to whole vectors.
inline void copy_rows(const float* src, std::int64_t stride, std::int64_t rows, std::int64_t columns, float scale,
                      float* dst) {
  const std::int64_t width = whole_vectors(columns);
  for (std::int64_t r = 0; r < rows; ++r, src += stride, dst += width) {
    for (std::int64_t c = 0; c < columns; c += kLanes) {
      const std::int64_t lanes = least(columns - c, kLanes);
      vstore(dst + c, (lanes == kLanes ? vload(src + c) : vload_n(src + c, lanes)) * scale);
    }
  }
}

}  // namespace
}  // namespace neap::NEAP_ISA_NS
