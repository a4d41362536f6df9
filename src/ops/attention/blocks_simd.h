// What attention in f32 and in bf16 have in common: how blocks of queries are shared out, the running softmax of a
// block, scratch, and what backward reads of a block's rows.
#pragma once

#include <omp.h>

#include "ops/attention/scores_simd.h"

namespace neap::NEAP_ISA_NS {
namespace {

// Takes scratch piece by piece.
struct Place {
  float* at;
  float* floats(std::int64_t n) {
    float* here = at;
    at += n;
    return here;
  }
  std::uint32_t* pairs(std::int64_t n) { return reinterpret_cast<std::uint32_t*>(floats(n)); }
  std::uint16_t* halves(std::int64_t n) { return reinterpret_cast<std::uint16_t*>(floats(n / 2)); }
};

// Tiles for the mask and for what dropout keeps, where there are any.
struct ExtraTiles {
  float *mask, *rows, *keep;
};

NEAP_VM std::int64_t extra_floats(const AttentionShape& s) {
  return ((s.mask != MaskKind::kNone ? 1 : 0) + (s.drop > 0 ? 2 : 0)) * kTile * kTile;
}

inline ExtraTiles extra_tiles(const AttentionShape& s, Place& place) {
  ExtraTiles x{};
  if (s.mask != MaskKind::kNone) x.mask = place.floats(kTile * kTile);
  if (s.drop > 0) {
    x.rows = place.floats(kTile * kTile);
    x.keep = place.floats(kTile * kTile);
  }
  return x;
}

// Softmax over keys that come tile by tile.
struct Running {
  static constexpr float kLowest = -3.402823466e38F;
  float* sum;     // of weights times values, [query][width]
  float* top;     // largest score so far, a query
  float* total;   // sum of e^(score - top)
  float* shrink;  // what the last tile's new maxima make of the sums before it

  static std::int64_t floats(const AttentionShape& s) { return kTile * whole_vectors(s.depth) + 3 * kTile; }

  static Running at(const AttentionShape& s, Place& place) {
    Running x{};
    x.sum = place.floats(kTile * whole_vectors(s.depth));
    x.top = place.floats(kTile);
    x.total = place.floats(kTile);
    x.shrink = place.floats(kTile);
    return x;
  }

  void start(const AttentionShape& s) const {
    for (std::int64_t i = 0; i < kTile * whole_vectors(s.depth); ++i) sum[i] = 0;
    for (std::int64_t i = 0; i < kTile; ++i) {
      top[i] = kLowest;
      total[i] = 0;
    }
  }

  void shrink_sums(const AttentionShape& s, const ScoreTile& t) const {
    const std::int64_t width = whole_vectors(s.depth);
    for (std::int64_t i = 0; i < t.queries; ++i) {
      if (shrink[i] == 1.0F) continue;
      float* row = sum + i * width;
      for (std::int64_t c = 0; c < width; c += kLanes) vstore(row + c, vload(row + c) * shrink[i]);
    }
  }

  // What a query's sum is multiplied by at the end: 0 where no key is seen.
  float scale(std::int64_t query) const { return total[query] == 0.0F ? 0.0F : 1.0F / total[query]; }

  void write_lse(std::int64_t queries, float* lse) const {
    for (std::int64_t i = 0; i < queries; i += kLanes) {
      vstore_n(lse + i, vload(top + i) + vlog(vload(total + i)), least(kLanes, queries - i));
    }
  }
};

// Calls block(b, h, first query, workspace) for every block of queries.
template <class Block>
void over_query_blocks(const AttentionShape& s, float* workspace, std::int64_t floats_a_thread, const Block& block) {
  const std::int64_t blocks = (s.queries + kTile - 1) / kTile;
#pragma omp parallel for schedule(static, 1) num_threads(s.threads)
  for (std::int64_t u = 0; u < s.batch * s.heads * blocks; ++u) {
    const std::int64_t head = u / blocks;
    // Causal blocks grow with their number: up and down by turns, so that threads get equal shares.
    const std::int64_t at = head % 2 == 0 ? blocks - 1 - u % blocks : u % blocks;
    block(head / s.heads, head % s.heads, at * kTile, workspace + omp_get_thread_num() * floats_a_thread);
  }
}

// Calls head(b, kv, workspace) for every head of keys: a thread has whole ones, so that their gradients are summed in
// one order, over heads, then over queries.
template <class Head>
void over_key_heads(const AttentionShape& s, float* workspace, std::int64_t floats_a_thread, const Head& head) {
#pragma omp parallel for schedule(static) num_threads(s.threads)
  for (std::int64_t u = 0; u < s.batch * s.kv_heads; ++u) {
    head(u / s.kv_heads, u % s.kv_heads, workspace + omp_get_thread_num() * floats_a_thread);
  }
}

// Calls block(h, first query) for all that meets a head of keys.
template <class Block>
void over_queries_of(const AttentionShape& s, std::int64_t kv, const Block& block) {
  const std::int64_t group = s.heads / s.kv_heads;
  for (std::int64_t h = kv * group; h < (kv + 1) * group; ++h) {
    for (std::int64_t query = 0; query < s.queries; query += kTile) block(h, query);
  }
}

// A row that saw no key has lse = -inf: +inf makes all of its weights 0. So do the lanes beyond the last query.
inline void load_lse(const float* lse, std::int64_t queries, float* dst) {
  for (std::int64_t i = 0; i < kTile; ++i) {
    const bool is_seeing = i < queries && lse[i] != -__builtin_inff();
    dst[i] = is_seeing ? lse[i] : __builtin_inff();
  }
}

NEAP_VM vf load_lanes(const float* p, std::int64_t lanes) { return vload_n(p, lanes); }
#if defined(__AVX512F__)
NEAP_VM vf load_lanes(const std::uint16_t* p, std::int64_t lanes) { return vload_bf16_n(p, lanes); }
#endif

template <class T>
NEAP_VM float dot(const T* a, const T* b, std::int64_t n) {
  vf sum{};
  for (std::int64_t c = 0; c < n; c += kLanes) {
    const std::int64_t lanes = least(kLanes, n - c);
    sum = vfma(load_lanes(a + c, lanes), load_lanes(b + c, lanes), sum);
  }
  return vsum_lanes(sum);
}

// dst[i] = dout_i . out_i, and 0 beyond the last query.
template <class T>
void load_delta(const AttentionShape& s, const T* dout, const T* out, std::int64_t queries, float* dst) {
  for (std::int64_t i = 0; i < kTile; ++i) {
    dst[i] = i < queries ? dot(dout + i * s.out.token, out + i * s.out.token, s.depth) : 0.0F;
  }
}

}  // namespace
}  // namespace neap::NEAP_ISA_NS
