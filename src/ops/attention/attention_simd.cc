#include "ops/attention/attention_simd.h"

#include "ops/attention/blocks_simd.h"

namespace neap::NEAP_ISA_NS {
namespace {

// One thread's scratch.
struct Scratch {
  float* query;   // transposed and scaled: [depth][kTile]
  float* value;   // [key][width]
  float* scores;  // [key][query]; then the weights
  Running soft;
  ExtraTiles extra;
};

std::int64_t floats_a_thread(const AttentionShape& s) {
  return 2 * kTile * whole_vectors(s.depth) + kTile * kTile + Running::floats(s) + extra_floats(s);
}

Scratch scratch_of(const AttentionShape& s, float* at) {
  const std::int64_t wide = kTile * whole_vectors(s.depth);
  Place place{at};
  Scratch x{};
  x.query = place.floats(wide);
  x.value = place.floats(wide);
  x.scores = place.floats(kTile * kTile);
  x.soft = Running::at(s, place);
  x.extra = extra_tiles(s, place);
  return x;
}

// Scores to weights, relative to the largest score so far.
inline void weigh(const ScoreTile& t, const float* mask, const float* keep, const Scratch& x) {
  for (std::int64_t v = 0; v * kLanes < t.queries; ++v) {
    const std::int64_t keys = t.keys_of_vector(v);
    const vf before = vload(x.soft.top + v * kLanes);
    vf top = before;
    for (std::int64_t j = 0; j < keys; ++j) top = vmax(top, score(x.scores, mask, t, j, v));
    const vf shrink = exp_of_score(before - top);
    vf total = vload(x.soft.total + v * kLanes) * shrink;
    for (std::int64_t j = 0; j < keys; ++j) {
      const vf e = exp_of_score(score(x.scores, mask, t, j, v) - top);
      total = total + e;
      const std::int64_t at = j * kTile + v * kLanes;
      vstore(x.scores + at, keep != nullptr ? e * vload(keep + at) : e);
    }
    vstore(x.soft.top + v * kLanes, top);
    vstore(x.soft.total + v * kLanes, total);
    vstore(x.soft.shrink + v * kLanes, shrink);
  }
}

// sum[i] = shrink[i] * sum[i] + sum over j of weight[i][j] * value[j]
inline void add_values(const AttentionShape& s, const ScoreTile& t, const Scratch& x) {
  const std::int64_t width = whole_vectors(s.depth);
  x.soft.shrink_sums(s, t);
  for (std::int64_t i = 0; i < t.queries; i += kRows) {
    const std::int64_t rows = least(kRows, t.queries - i);
    const std::int64_t keys = least(t.keys, i + rows + least(t.shift, kTile));
    if (keys <= 0) continue;
    multiply_rows({.a = x.scores + i,
                   .a_row = 1,
                   .a_k = kTile,
                   .b = x.value,
                   .b_row = width,
                   .k = keys,
                   .c = x.soft.sum + i * width,
                   .c_row = width,
                   .accumulate = true},
                  rows, width);
  }
}

inline void write(const AttentionShape& s, std::int64_t queries, const Scratch& x, float* out, float* lse) {
  const std::int64_t width = whole_vectors(s.depth);
  for (std::int64_t i = 0; i < queries; ++i) {
    const float scale = x.soft.scale(i);
    for (std::int64_t c = 0; c < s.depth; c += kLanes) {
      vstore_n(out + i * s.out.token + c, vload(x.soft.sum + i * width + c) * scale, least(kLanes, s.depth - c));
    }
  }
  if (lse != nullptr) x.soft.write_lse(queries, lse);
}

// Queries [query, query + kTile) of one head, all their keys, tile by tile.
void block_of_queries(const AttentionShape& s, const AttentionForward<float>& f, std::int64_t b, std::int64_t h,
                      std::int64_t query, const Scratch& x) {
  const std::int64_t kv = h / (s.heads / s.kv_heads);
  const float* k = f.k + b * s.k.batch + kv * s.k.head;
  const float* v = f.v + b * s.v.batch + kv * s.v.head;
  const std::int64_t queries = least(kTile, s.queries - query);
  transpose_tile(f.q + b * s.q.batch + h * s.q.head + query * s.q.token, s.q.token, queries, s.depth, s.scale, x.query);
  x.soft.start(s);
  const std::int64_t keys = keys_seen(s, query);
  for (std::int64_t key = 0; key < keys; key += kTile) {
    const ScoreTile t = score_tile(s, query, key);
    products_of_tile(k + key * s.k.token, s.k.token, x.query, s, t, x.scores);
    weigh(t, mask_tile(s, f.mask, b, h, t, x.extra.mask), keep_tile(s, f.draw, b, h, t, x.extra.rows, x.extra.keep), x);
    copy_rows(v + key * s.v.token, s.v.token, t.keys, s.depth, 1, x.value);
    add_values(s, t, x);
  }
  write(s, queries, x, f.out + b * s.out.batch + h * s.out.head + query * s.out.token,
        f.lse != nullptr ? f.lse + (b * s.heads + h) * s.queries + query : nullptr);
}

void run(const AttentionShape& s, const AttentionForward<float>& f) {
  over_query_blocks(s, f.workspace, floats_a_thread(s),
                    [&](std::int64_t b, std::int64_t h, std::int64_t query, float* workspace) {
                      block_of_queries(s, f, b, h, query, scratch_of(s, workspace));
                    });
}

std::int64_t floats(const AttentionShape& s) { return floats_a_thread(s) * s.threads; }

}  // namespace

const AttentionTable<float>& attention_table() {
  static constexpr AttentionTable<float> kTable = {floats, run};
  return kTable;
}

}  // namespace neap::NEAP_ISA_NS
