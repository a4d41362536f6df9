#include "ops/attention/attention_simd.h"
#include "ops/attention/blocks_simd.h"

namespace neap::NEAP_ISA_NS {
namespace {

// One thread's scratch. Weights are p = e^(s - lse), s = scale * q . k; dp = dout . v; ds = p * (dp - delta).
struct Scratch {
  float* query;         // scaled rows, [query][width]
  float* query_turned;  // [depth][kTile]
  float* dout;
  float* dout_turned;
  float* key;     // [key][width]
  float* dquery;  // [query][width]
  float* weight;  // [key][query]: scores, then weights as they met the values
  float* change;  // [key][query]: dp, then ds
  float* lse;
  float* delta;  // dout . out
  ExtraTiles extra;
};

std::int64_t floats_a_thread(const AttentionShape& s) {
  return 6 * kTile * whole_vectors(s.depth) + 2 * kTile * kTile + 2 * kTile + extra_floats(s);
}

Scratch scratch_of(const AttentionShape& s, float* at) {
  const std::int64_t wide = kTile * whole_vectors(s.depth);
  Place place{at};
  Scratch x{};
  x.query = place.floats(wide);
  x.query_turned = place.floats(wide);
  x.dout = place.floats(wide);
  x.dout_turned = place.floats(wide);
  x.key = place.floats(wide);
  x.dquery = place.floats(wide);
  x.weight = place.floats(kTile * kTile);
  x.change = place.floats(kTile * kTile);
  x.lse = place.floats(kTile);
  x.delta = place.floats(kTile);
  x.extra = extra_tiles(s, place);
  return x;
}

// Scores and dp to weights and ds.
inline void weigh(const ScoreTile& t, const float* mask, const float* keep, const Scratch& x) {
  for (std::int64_t v = 0; v * kLanes < t.queries; ++v) {
    const vf lse = vload(x.lse + v * kLanes);
    const vf delta = vload(x.delta + v * kLanes);
    const std::int64_t keys = t.keys_of_vector(v);
    for (std::int64_t j = 0; j < keys; ++j) {
      const std::int64_t at = j * kTile + v * kLanes;
      const vf p = exp_of_score(score(x.weight, mask, t, j, v) - lse);
      const vf factor = keep != nullptr ? vload(keep + at) : vset(1.0F);
      vstore(x.weight + at, p * factor);
      vstore(x.change + at, p * (vload(x.change + at) * factor - delta));
    }
  }
}

// dst[j] += sum over queries i of weight[j][i] * rows[i]
inline void add_to_keys(const AttentionShape& s, const ScoreTile& t, const float* weight, const float* rows,
                        const HeadStrides& strides, float* dst) {
  const std::int64_t width = whole_vectors(s.depth);
  for (std::int64_t j = 0; j < t.keys; j += kRows) {
    const std::int64_t first = most(0, j - t.shift);
    if (first >= t.queries) return;
    multiply_rows({.a = weight + j * kTile + first,
                   .a_row = kTile,
                   .a_k = 1,
                   .b = rows + first * width,
                   .b_row = width,
                   .k = t.queries - first,
                   .c = dst + j * strides.token,
                   .c_row = strides.token,
                   .accumulate = true},
                  least(kRows, t.keys - j), s.depth);
  }
}

// dquery[i] += sum over keys j of ds[j][i] * key[j]
inline void add_to_queries(const AttentionShape& s, const ScoreTile& t, const Scratch& x) {
  const std::int64_t width = whole_vectors(s.depth);
  for (std::int64_t i = 0; i < t.queries; i += kRows) {
    const std::int64_t rows = least(kRows, t.queries - i);
    const std::int64_t keys = least(t.keys, i + rows + least(t.shift, kTile));
    if (keys <= 0) continue;
    multiply_rows({.a = x.change + i,
                   .a_row = 1,
                   .a_k = kTile,
                   .b = x.key,
                   .b_row = width,
                   .k = keys,
                   .c = x.dquery + i * width,
                   .c_row = width,
                   .accumulate = true},
                  rows, width);
  }
}

inline void load_rows(const AttentionShape& s, const AttentionBackward<float>& g, std::int64_t b, std::int64_t h,
                      std::int64_t query, const Scratch& x) {
  const std::int64_t queries = least(kTile, s.queries - query);
  const float* q = g.q + b * s.q.batch + h * s.q.head + query * s.q.token;
  const std::int64_t at = b * s.out.batch + h * s.out.head + query * s.out.token;
  copy_rows(q, s.q.token, queries, s.depth, s.scale, x.query);
  transpose_tile(q, s.q.token, queries, s.depth, s.scale, x.query_turned);
  copy_rows(g.dout + at, s.out.token, queries, s.depth, 1, x.dout);
  transpose_tile(g.dout + at, s.out.token, queries, s.depth, 1, x.dout_turned);
  load_lse(g.lse + (b * s.heads + h) * s.queries + query, queries, x.lse);
  load_delta(s, g.dout + at, g.out + at, queries, x.delta);
  for (std::int64_t i = 0; i < kTile * whole_vectors(s.depth); ++i) x.dquery[i] = 0;
}

inline void write_queries(const AttentionShape& s, std::int64_t queries, const Scratch& x, float* dq) {
  const std::int64_t width = whole_vectors(s.depth);
  for (std::int64_t i = 0; i < queries; ++i) {
    for (std::int64_t c = 0; c < s.depth; c += kLanes) {
      vstore_n(dq + i * s.q.token + c, vload(x.dquery + i * width + c) * s.scale, least(kLanes, s.depth - c));
    }
  }
}

inline void clear_rows(const AttentionShape& s, const HeadStrides& strides, float* dst) {
  for (std::int64_t j = 0; j < s.keys; ++j) {
    for (std::int64_t c = 0; c < s.depth; ++c) dst[j * strides.token + c] = 0;
  }
}

void block_of_queries(const AttentionShape& s, const AttentionBackward<float>& g, std::int64_t b, std::int64_t h,
                      std::int64_t query, const Scratch& x) {
  const std::int64_t kv = h / (s.heads / s.kv_heads);
  const std::int64_t k_first = b * s.k.batch + kv * s.k.head;
  const std::int64_t v_first = b * s.v.batch + kv * s.v.head;
  load_rows(s, g, b, h, query, x);
  const std::int64_t keys = keys_seen(s, query);
  for (std::int64_t key = 0; key < keys; key += kTile) {
    const ScoreTile t = score_tile(s, query, key);
    const std::int64_t k_at = k_first + key * s.k.token;
    const std::int64_t v_at = v_first + key * s.v.token;
    products_of_tile(g.k + k_at, s.k.token, x.query_turned, s, t, x.weight);
    products_of_tile(g.v + v_at, s.v.token, x.dout_turned, s, t, x.change);
    weigh(t, mask_tile(s, g.mask, b, h, t, x.extra.mask), keep_tile(s, g.draw, b, h, t, x.extra.rows, x.extra.keep), x);
    if (g.dv != nullptr) add_to_keys(s, t, x.weight, x.dout, s.v, g.dv + v_at);
    if (g.dk != nullptr) add_to_keys(s, t, x.change, x.query, s.k, g.dk + k_at);
    if (g.dq == nullptr) continue;
    copy_rows(g.k + k_at, s.k.token, t.keys, s.depth, 1, x.key);
    add_to_queries(s, t, x);
  }
  if (g.dq != nullptr) {
    write_queries(s, least(kTile, s.queries - query), x, g.dq + b * s.q.batch + h * s.q.head + query * s.q.token);
  }
}

void run(const AttentionShape& s, const AttentionBackward<float>& g) {
  over_key_heads(s, g.workspace, floats_a_thread(s), [&](std::int64_t b, std::int64_t kv, float* workspace) {
    const Scratch x = scratch_of(s, workspace);
    if (g.dk != nullptr) clear_rows(s, s.k, g.dk + b * s.k.batch + kv * s.k.head);
    if (g.dv != nullptr) clear_rows(s, s.v, g.dv + b * s.v.batch + kv * s.v.head);
    over_queries_of(s, kv, [&](std::int64_t h, std::int64_t query) { block_of_queries(s, g, b, h, query, x); });
  });
}

std::int64_t floats(const AttentionShape& s) { return floats_a_thread(s) * s.threads; }

}  // namespace

const AttentionGradTable<float>& attention_grad_table() {
  static constexpr AttentionGradTable<float> kTable = {floats, run};
  return kTable;
}

}  // namespace neap::NEAP_ISA_NS
