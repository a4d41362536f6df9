#include "ops/attention/attention_simd.h"
#include "ops/attention/blocks_simd.h"
#include "ops/attention/pairs_simd.h"

namespace neap::NEAP_ISA_NS {

#if defined(__AVX512F__)

namespace {

// One thread's scratch. Weights are p = e^(s - lse), s = scale * q . k; dp = dout . v; ds = p * (dp - delta).
struct Scratch {
  std::uint32_t* query_turned;  // transposed pairs, [depth / 2][kTile]
  std::uint32_t* dout_turned;
  std::uint32_t* query;  // pairs of queries, [query / 2][width]
  std::uint32_t* dout;
  std::uint32_t* key;           // pairs of keys, [key / 2][width]
  float* dquery;                // [query][width]
  float* weight;                // [key][query]: scores
  float* change;                // [key][query]: dp
  std::uint16_t* weights;       // [key][query]: weights as they met the values, rounded
  std::uint16_t* changes;       // [key][query]: ds
  std::uint32_t* change_pairs;  // ds in pairs of keys, [key / 2][query]
  float* lse;
  float* delta;  // dout . out
  ExtraTiles extra;
  float* dkey;  // [keys][width], all of a head
  float* dvalue;
};

std::int64_t floats_a_thread(const AttentionShape& s) {
  const std::int64_t width = whole_vectors(s.depth);
  return 5 * kTile * width + 7 * kTile * kTile / 2 + 2 * kTile + 2 * s.keys * width + extra_floats(s);
}

Scratch scratch_of(const AttentionShape& s, float* at) {
  const std::int64_t wide = kTile * whole_vectors(s.depth);
  constexpr std::int64_t kSquare = kTile * kTile;
  Place place{at};
  Scratch x{};
  x.query_turned = place.pairs(wide);
  x.dout_turned = place.pairs(wide);
  x.query = place.pairs(wide / 2);
  x.dout = place.pairs(wide / 2);
  x.key = place.pairs(wide);
  x.dquery = place.floats(wide);
  x.weight = place.floats(kSquare);
  x.change = place.floats(kSquare);
  x.weights = place.halves(kSquare);
  x.changes = place.halves(kSquare);
  x.change_pairs = place.pairs(kSquare / 2);
  x.lse = place.floats(kTile);
  x.delta = place.floats(kTile);
  x.extra = extra_tiles(s, place);
  x.dkey = place.floats(s.keys * whole_vectors(s.depth));
  x.dvalue = place.floats(s.keys * whole_vectors(s.depth));
  return x;
}

// Scores and dp to weights and ds.
inline void weigh(const AttentionShape& s, const ScoreTile& t, const float* mask, const float* keep, const Scratch& x) {
  for (std::int64_t v = 0; v * kLanes < t.queries; ++v) {
    const vf lse = vload(x.lse + v * kLanes);
    const vf delta = vload(x.delta + v * kLanes);
    const std::int64_t keys = t.keys_of_vector(v);
    for (std::int64_t j = 0; j < keys; j += 2) {
      vh change[2] = {};
      for (std::int64_t p = 0; p < 2 && j + p < keys; ++p) {
        const std::int64_t at = (j + p) * kTile + v * kLanes;
        const vf weight = exp_of_score(scaled_score(x.weight, mask, t, s.scale, j + p, v) - lse);
        const vf factor = keep != nullptr ? vload(keep + at) : vset(1.0F);
        vstore_half(x.weights + at, vround_bf16(weight * factor));
        change[p] = vround_bf16(weight * (vload(x.change + at) * factor - delta));
        vstore_half(x.changes + at, change[p]);
      }
      vstore(x.change_pairs + j / 2 * kTile + v * kLanes, vpairs(change[0], change[1]));
    }
  }
}

// dst[j] += sum over queries i of weight[j][i] * rows[i], in pairs of queries.
inline void add_over_queries(const AttentionShape& s, const ScoreTile& t, const std::uint16_t* weight,
                             const std::uint32_t* rows, float* dst) {
  const std::int64_t width = whole_vectors(s.depth);
  for (std::int64_t j = 0; j < t.keys; j += kRows) {
    const std::int64_t first = most(0, j - t.shift) / 2;  // pair; what it has before the first query is 0
    if (2 * first >= t.queries) return;
    multiply_pair_rows({.a = weight + j * kTile + 2 * first,
                        .a_row = kTile / 2,
                        .a_k = 1,
                        .b = rows + first * width,
                        .b_row = width,
                        .k = (t.queries + 1) / 2 - first,
                        .c = dst + j * width,
                        .c_row = width,
                        .accumulate = true},
                       least(kRows, t.keys - j), width);
  }
}

inline void load_rows(const AttentionShape& s, const AttentionBackward<std::uint16_t>& g, std::int64_t b,
                      std::int64_t h, std::int64_t query, const Scratch& x) {
  const std::int64_t queries = least(kTile, s.queries - query);
  const std::uint16_t* q = g.q + b * s.q.batch + h * s.q.head + query * s.q.token;
  const std::int64_t at = b * s.out.batch + h * s.out.head + query * s.out.token;
  pair_rows(q, s.q.token, queries, s.depth, x.query);
  transpose_pairs(q, s.q.token, queries, s.depth, x.query_turned);
  pair_rows(g.dout + at, s.out.token, queries, s.depth, x.dout);
  transpose_pairs(g.dout + at, s.out.token, queries, s.depth, x.dout_turned);
  load_lse(g.lse + (b * s.heads + h) * s.queries + query, queries, x.lse);
  load_delta(s, g.dout + at, g.out + at, queries, x.delta);
  for (std::int64_t i = 0; i < kTile * whole_vectors(s.depth); ++i) x.dquery[i] = 0;
}

// Rows of sums to where they belong.
inline void write_rows(const AttentionShape& s, std::int64_t rows, const float* sums, float scale,
                       const HeadStrides& strides, std::uint16_t* dst) {
  const std::int64_t width = whole_vectors(s.depth);
  for (std::int64_t i = 0; i < rows; ++i) store_scaled(dst + i * strides.token, sums + i * width, scale, s.depth);
}

void block_of_queries(const AttentionShape& s, const AttentionBackward<std::uint16_t>& g, std::int64_t b,
                      std::int64_t h, std::int64_t query, const Scratch& x) {
  const std::int64_t kv = h / (s.heads / s.kv_heads);
  const std::int64_t width = whole_vectors(s.depth);
  const std::uint16_t* k = g.k + b * s.k.batch + kv * s.k.head;
  const std::uint16_t* v = g.v + b * s.v.batch + kv * s.v.head;
  load_rows(s, g, b, h, query, x);
  const std::int64_t keys = keys_seen(s, query);
  for (std::int64_t key = 0; key < keys; key += kTile) {
    const ScoreTile t = score_tile(s, query, key);
    pair_products_of_tile(k + key * s.k.token, s.k.token, x.query_turned, s, t, x.weight);
    pair_products_of_tile(v + key * s.v.token, s.v.token, x.dout_turned, s, t, x.change);
    weigh(s, t, mask_tile(s, g.mask, b, h, t, x.extra.mask), keep_tile(s, g.draw, b, h, t, x.extra.rows, x.extra.keep),
          x);
    if (g.dv != nullptr) add_over_queries(s, t, x.weights, x.dout, x.dvalue + key * width);
    if (g.dk != nullptr) add_over_queries(s, t, x.changes, x.query, x.dkey + key * width);
    if (g.dq == nullptr) continue;
    pair_rows(k + key * s.k.token, s.k.token, t.keys, s.depth, x.key);
    add_over_keys(s, t, x.change_pairs, x.key, x.dquery);
  }
  if (g.dq == nullptr) return;
  write_rows(s, least(kTile, s.queries - query), x.dquery, s.scale, s.q,
             g.dq + b * s.q.batch + h * s.q.head + query * s.q.token);
}

void run(const AttentionShape& s, const AttentionBackward<std::uint16_t>& g) {
  over_key_heads(s, g.workspace, floats_a_thread(s), [&](std::int64_t b, std::int64_t kv, float* workspace) {
    const Scratch x = scratch_of(s, workspace);
    const std::int64_t sums = s.keys * whole_vectors(s.depth);
    for (std::int64_t i = 0; i < sums; ++i) x.dkey[i] = x.dvalue[i] = 0;
    over_queries_of(s, kv, [&](std::int64_t h, std::int64_t query) { block_of_queries(s, g, b, h, query, x); });
    if (g.dk != nullptr) write_rows(s, s.keys, x.dkey, s.scale, s.k, g.dk + b * s.k.batch + kv * s.k.head);
    if (g.dv != nullptr) write_rows(s, s.keys, x.dvalue, 1, s.v, g.dv + b * s.v.batch + kv * s.v.head);
  });
}

std::int64_t floats(const AttentionShape& s) { return floats_a_thread(s) * s.threads; }

}  // namespace

const AttentionGradTable<std::uint16_t>& attention_bf16_grad_table() {
  static constexpr AttentionGradTable<std::uint16_t> kTable = {floats, run};
  return kTable;
}

#else

const AttentionGradTable<std::uint16_t>& attention_bf16_grad_table() {
  static constexpr AttentionGradTable<std::uint16_t> kTable = {nullptr, nullptr};
  return kTable;
}

#endif

}  // namespace neap::NEAP_ISA_NS
