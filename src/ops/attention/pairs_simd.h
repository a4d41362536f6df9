// Products of small tiles of bf16, in pairs along k, and the making of pairs, for attention's *_simd.cc files.
#pragma once

#include "device/cpu/vdot.h"
#include "ops/attention/scores_simd.h"

#if defined(__AVX512F__)

namespace neap::NEAP_ISA_NS {
namespace {

// C = [C +] A B over `k` pairs. Pair (row, p) of A is a[row * a_row + p * a_k]; rows of B are whole vectors of pairs.
struct PairProduct {
  const void* a;
  std::int64_t a_row, a_k;  // in pairs
  const std::uint32_t* b;
  std::int64_t b_row;
  std::int64_t k;
  float* c;
  std::int64_t c_row;
  bool accumulate;
};

NEAP_VM vu broadcast_pair(const char* p) {
  std::uint32_t pair;
  __builtin_memcpy(&pair, p, sizeof pair);
  return vset(pair);
}

template <int R, int V>
[[gnu::noinline]] void multiply_pairs(const PairProduct& p) {
  vf sum[R][V];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) sum[r][v] = p.accumulate ? vload(p.c + r * p.c_row + v * kLanes) : vf{};
  }
  const char* a = static_cast<const char*>(p.a);
  const std::uint32_t* b = p.b;
  for (std::int64_t k = p.k; k > 0; --k) {
    vu row[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) row[v] = vload(b + v * kLanes);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const vu x = broadcast_pair(a + 4 * r * p.a_row);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sum[r][v] = vdot_pairs(sum[r][v], x, row[v]);
    }
    a += 4 * p.a_k;
    b += p.b_row;
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) vstore(p.c + r * p.c_row + v * kLanes, sum[r][v]);
  }
}

using PairFunction = void (*)(const PairProduct&);

template <int R>
NEAP_VM PairFunction pairs_of(std::int64_t vectors) {
  return vectors >= 4   ? multiply_pairs<R, 4>
         : vectors == 3 ? multiply_pairs<R, 3>
         : vectors == 2 ? multiply_pairs<R, 2>
                        : multiply_pairs<R, 1>;
}

// Up to kRows rows, whole vectors of columns.
inline void multiply_pair_rows(PairProduct p, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t c = 0; c < columns; c += 4 * kLanes) {
    const std::int64_t vectors = least(columns - c, 4 * kLanes) / kLanes;
    const PairFunction run = rows == 4   ? pairs_of<4>(vectors)
                             : rows == 3 ? pairs_of<3>(vectors)
                             : rows == 2 ? pairs_of<2>(vectors)
                                         : pairs_of<1>(vectors);
    run(p);
    p.b += 4 * kLanes;
    p.c += 4 * kLanes;
  }
}

NEAP_VM vh load_half(const std::uint16_t* p, std::int64_t n) {
  return n >= kLanes ? vload_as<vh>(p) : vload_half_n(p, n);
}

// dst[c][r] = pair c of row r, for `columns` / 2 pairs; rows beyond `rows` (up to kTile) are zero.
inline void transpose_pairs(const std::uint16_t* src, std::int64_t stride, std::int64_t rows, std::int64_t columns,
                            std::uint32_t* dst) {
  const std::int64_t pairs = columns / 2;
  for (std::int64_t r = 0; r < kTile; r += kLanes) {
    for (std::int64_t c = 0; c < pairs; c += kLanes) {
      const std::int64_t lanes = least(pairs - c, kLanes);
      vf block[kLanes];  // moved, not computed with
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) {
        const auto* from = reinterpret_cast<const float*>(src + (r + i) * stride + 2 * c);
        block[i] = r + i >= rows ? vf{} : lanes == kLanes ? vload(from) : vload_n(from, lanes);
      }
      transpose_lanes(block);
      for (std::int64_t i = 0; i < lanes; ++i) vstore(dst + (c + i) * kTile + r, as_bits(block[i]));
    }
  }
}

// dst[p][c] = (src[2 p][c], src[2 p + 1][c]) with zeros beyond the last row and column.
inline void pair_rows(const std::uint16_t* src, std::int64_t stride, std::int64_t rows, std::int64_t columns,
                      std::uint32_t* dst) {
  const std::int64_t width = whole_vectors(columns);
  for (std::int64_t r = 0; r < rows; r += 2, dst += width) {
    const std::uint16_t* low = src + r * stride;
    const std::uint16_t* high = low + stride;
    for (std::int64_t c = 0; c < columns; c += kLanes) {
      const std::int64_t n = columns - c;
      vstore(dst + c, vpairs(load_half(low + c, n), r + 1 < rows ? load_half(high + c, n) : vh{}));
    }
  }
}

// dst[j][i] = x_j . y_i, where x are rows of bf16 and y is transposed pairs ([depth / 2][kTile]).
inline void pair_products_of_tile(const std::uint16_t* x, std::int64_t stride, const std::uint32_t* y,
                                  const AttentionShape& s, const ScoreTile& t, float* dst) {
  for (std::int64_t j = 0; j < t.keys; j += kRows) {
    const std::int64_t first = t.first_vector(j) * kLanes;
    const std::int64_t width = whole_vectors(t.queries) - first;
    if (width <= 0) return;
    multiply_pair_rows({.a = x + j * stride,
                        .a_row = stride / 2,
                        .a_k = 1,
                        .b = y + first,
                        .b_row = kTile,
                        .k = s.depth / 2,
                        .c = dst + j * kTile + first,
                        .c_row = kTile,
                        .accumulate = false},
                       least(kRows, t.keys - j), width);
  }
}

// Score of local key j for queries of vector v: scaled and masked, minus infinity where causality hides it.
NEAP_VM vf scaled_score(const float* scores, const float* mask, const ScoreTile& t, float scale, std::int64_t j,
                        std::int64_t v) {
  const std::int64_t at = j * kTile + v * kLanes;
  vf x = vload(scores + at) * scale;
  if (mask != nullptr) x = x + vload(mask + at);
  if (t.is_whole()) return x;
  const auto first = static_cast<std::int32_t>(most(j - t.shift - v * kLanes, 0));
  return vlane() >= first ? x : vset(-__builtin_inff());
}

// sum[i] += sum over keys j of weight[j][i] * rows[j], both in pairs of keys; `sum` has whole vectors.
inline void add_over_keys(const AttentionShape& s, const ScoreTile& t, const std::uint32_t* weight,
                          const std::uint32_t* rows, float* sum) {
  const std::int64_t width = whole_vectors(s.depth);
  for (std::int64_t i = 0; i < t.queries; i += kRows) {
    const std::int64_t here = least(kRows, t.queries - i);
    const std::int64_t keys = least(t.keys, i + here + least(t.shift, kTile));
    if (keys <= 0) continue;
    multiply_pair_rows({.a = weight + i,
                        .a_row = 1,
                        .a_k = kTile,
                        .b = rows,
                        .b_row = width,
                        .k = (keys + 1) / 2,
                        .c = sum + i * width,
                        .c_row = width,
                        .accumulate = true},
                       here, width);
  }
}

NEAP_VM void store_scaled(std::uint16_t* dst, const float* src, float scale, std::int64_t n) {
  for (std::int64_t c = 0; c < n; c += kLanes) {
    const vf x = vload(src + c) * scale;
    if (n - c >= kLanes) {
      vstore_bf16(dst + c, x);
    } else {
      vstore_bf16_n(dst + c, x, n - c);
    }
  }
}

}  // namespace
}  // namespace neap::NEAP_ISA_NS

#endif
