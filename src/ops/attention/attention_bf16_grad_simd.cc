#include <omp.h>

#include "ops/attention/attention_bf16_simd.h"
#include "ops/attention/pairs_simd.h"

#if defined(__AVX512F__)

namespace neap::NEAP_ISA_NS {

const AttentionBf16Table& attention_bf16_grad_table();

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
  float* mask;
  float* rows;
  float* keep;
  float* dkey;  // [keys][width], all of a head
  float* dvalue;
};

std::int64_t floats_a_thread(const AttentionShape& s) {
  const std::int64_t width = whole_vectors(s.depth);
  const std::int64_t tiles = 4 + (s.mask != MaskKind::kNone ? 1 : 0) + (s.drop > 0 ? 2 : 0);
  return 6 * kTile * width + tiles * kTile * kTile + 2 * kTile + 2 * s.keys * width;
}

Scratch scratch_of(const AttentionShape& s, float* at) {
  const std::int64_t wide = kTile * whole_vectors(s.depth);
  constexpr std::int64_t kSquare = kTile * kTile;
  Scratch x{};
  const auto take = [&at](std::int64_t floats) {
    float* here = at;
    at += floats;
    return here;
  };
  const auto take_pairs = [&take](std::int64_t pairs) { return reinterpret_cast<std::uint32_t*>(take(pairs)); };
  x.query_turned = take_pairs(wide);
  x.dout_turned = take_pairs(wide);
  x.query = take_pairs(wide / 2);
  x.dout = take_pairs(wide / 2);
  x.key = take_pairs(wide);
  x.dquery = take(wide);
  x.weight = take(kSquare);
  x.change = take(kSquare);
  x.weights = reinterpret_cast<std::uint16_t*>(take(kSquare / 2));
  x.changes = reinterpret_cast<std::uint16_t*>(take(kSquare / 2));
  x.change_pairs = take_pairs(kSquare / 2);
  x.lse = take(kTile);
  x.delta = take(kTile);
  if (s.mask != MaskKind::kNone) x.mask = take(kSquare);
  if (s.drop > 0) {
    x.rows = take(kSquare);
    x.keep = take(kSquare);
  }
  x.dkey = take(s.keys * whole_vectors(s.depth));
  x.dvalue = take(s.keys * whole_vectors(s.depth));
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

NEAP_VM float dot(const std::uint16_t* a, const std::uint16_t* b, std::int64_t n) {
  vf sum{};
  for (std::int64_t c = 0; c < n; c += kLanes) {
    const std::int64_t lanes = least(kLanes, n - c);
    sum = vfma(vload_bf16_n(a + c, lanes), vload_bf16_n(b + c, lanes), sum);
  }
  return vsum_lanes(sum);
}

// A row that saw no key has lse = -inf: +inf makes all of its weights 0. So do the lanes beyond the last query.
inline void load_rows(const AttentionShape& s, const AttentionBackwardBf16& g, std::int64_t b, std::int64_t h,
                      std::int64_t query, const Scratch& x) {
  const std::int64_t queries = least(kTile, s.queries - query);
  const std::uint16_t* q = g.q + b * s.q.batch + h * s.q.head + query * s.q.token;
  const std::int64_t at = b * s.out.batch + h * s.out.head + query * s.out.token;
  pair_rows(q, s.q.token, queries, s.depth, x.query);
  transpose_pairs(q, s.q.token, queries, s.depth, x.query_turned);
  pair_rows(g.dout + at, s.out.token, queries, s.depth, x.dout);
  transpose_pairs(g.dout + at, s.out.token, queries, s.depth, x.dout_turned);
  const float* lse = g.lse + (b * s.heads + h) * s.queries + query;
  for (std::int64_t i = 0; i < kTile; ++i) {
    const bool is_seeing = i < queries && lse[i] != -__builtin_inff();
    x.lse[i] = is_seeing ? lse[i] : __builtin_inff();
    x.delta[i] = i < queries ? dot(g.dout + at + i * s.out.token, g.out + at + i * s.out.token, s.depth) : 0.0F;
  }
  for (std::int64_t i = 0; i < kTile * whole_vectors(s.depth); ++i) x.dquery[i] = 0;
}

// Rows of sums to where they belong.
inline void write_rows(const AttentionShape& s, std::int64_t rows, const float* sums, float scale,
                       const HeadStrides& strides, std::uint16_t* dst) {
  const std::int64_t width = whole_vectors(s.depth);
  for (std::int64_t i = 0; i < rows; ++i) store_scaled(dst + i * strides.token, sums + i * width, scale, s.depth);
}

void block_of_queries(const AttentionShape& s, const AttentionBackwardBf16& g, std::int64_t b, std::int64_t h,
                      std::int64_t query, const Scratch& x) {
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
    weigh(s, t, mask_tile(s, g.mask, b, h, t, x.mask), keep_tile(s, g.draw, b, h, t, x.rows, x.keep), x);
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

// A thread has whole heads of keys, so that their gradients are summed in one order: over heads, then over queries.
void grad(const AttentionShape& s, const AttentionBackwardBf16& g) {
  const std::int64_t each = floats_a_thread(s);
  const std::int64_t group = s.heads / s.kv_heads;
#pragma omp parallel for schedule(static) num_threads(s.threads)
  for (std::int64_t u = 0; u < s.batch * s.kv_heads; ++u) {
    const std::int64_t b = u / s.kv_heads;
    const std::int64_t kv = u % s.kv_heads;
    const Scratch x = scratch_of(s, g.workspace + omp_get_thread_num() * each);
    const std::int64_t sums = s.keys * whole_vectors(s.depth);
    for (std::int64_t i = 0; i < sums; ++i) x.dkey[i] = x.dvalue[i] = 0;
    for (std::int64_t h = kv * group; h < (kv + 1) * group; ++h) {
      for (std::int64_t query = 0; query < s.queries; query += kTile) block_of_queries(s, g, b, h, query, x);
    }
    if (g.dk != nullptr) write_rows(s, s.keys, x.dkey, s.scale, s.k, g.dk + b * s.k.batch + kv * s.k.head);
    if (g.dv != nullptr) write_rows(s, s.keys, x.dvalue, 1, s.v, g.dv + b * s.v.batch + kv * s.v.head);
  }
}

std::int64_t grad_floats(const AttentionShape& s) { return floats_a_thread(s) * s.threads; }

}  // namespace

const AttentionBf16Table& attention_bf16_grad_table() {
  static constexpr AttentionBf16Table kTable = {nullptr, nullptr, grad_floats, grad};
  return kTable;
}

}  // namespace neap::NEAP_ISA_NS

#endif
