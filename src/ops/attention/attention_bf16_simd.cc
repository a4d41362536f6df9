#include "ops/attention/attention_simd.h"
#include "ops/attention/blocks_simd.h"
#include "ops/attention/pairs_simd.h"

namespace neap::NEAP_ISA_NS {

#if defined(__AVX512F__)

namespace {

// One thread's scratch.
struct Scratch {
  std::uint32_t* query;   // transposed pairs: [depth / 2][kTile]
  std::uint32_t* value;   // pairs of keys: [key / 2][width]
  float* scores;          // [key][query]
  std::uint32_t* weight;  // pairs of keys: [key / 2][query]
  Running soft;
  ExtraTiles extra;
};

std::int64_t floats_a_thread(const AttentionShape& s) {
  return 2 * kTile * whole_vectors(s.depth) + 2 * kTile * kTile + Running::floats(s) + extra_floats(s);
}

Scratch scratch_of(const AttentionShape& s, float* at) {
  const std::int64_t wide = kTile * whole_vectors(s.depth);
  Place place{at};
  Scratch x{};
  x.query = place.pairs(wide);
  x.value = place.pairs(wide);
  x.scores = place.floats(kTile * kTile);
  x.weight = place.pairs(kTile * kTile);
  x.soft = Running::at(s, place);
  x.extra = extra_tiles(s, place);
  return x;
}

// Scores to weights, relative to the largest score so far. The total has them as they were before they were rounded.
inline void weigh(const AttentionShape& s, const ScoreTile& t, const float* mask, const float* keep, const Scratch& x) {
  for (std::int64_t v = 0; v * kLanes < t.queries; ++v) {
    const std::int64_t keys = t.keys_of_vector(v);
    const vf before = vload(x.soft.top + v * kLanes);
    vf top = before;
    for (std::int64_t j = 0; j < keys; ++j) top = vmax(top, scaled_score(x.scores, mask, t, s.scale, j, v));
    const vf shrink = exp_of_score(before - top);
    vf total = vload(x.soft.total + v * kLanes) * shrink;
    for (std::int64_t j = 0; j < keys; j += 2) {
      vh weight[2] = {};
      for (std::int64_t p = 0; p < 2 && j + p < keys; ++p) {
        const vf e = exp_of_score(scaled_score(x.scores, mask, t, s.scale, j + p, v) - top);
        total = total + e;
        weight[p] = vround_bf16(keep != nullptr ? e * vload(keep + (j + p) * kTile + v * kLanes) : e);
      }
      vstore(x.weight + j / 2 * kTile + v * kLanes, vpairs(weight[0], weight[1]));
    }
    vstore(x.soft.top + v * kLanes, top);
    vstore(x.soft.total + v * kLanes, total);
    vstore(x.soft.shrink + v * kLanes, shrink);
  }
}

inline void write(const AttentionShape& s, std::int64_t queries, const Scratch& x, std::uint16_t* out, float* lse) {
  const std::int64_t width = whole_vectors(s.depth);
  for (std::int64_t i = 0; i < queries; ++i) {
    store_scaled(out + i * s.out.token, x.soft.sum + i * width, x.soft.scale(i), s.depth);
  }
  if (lse != nullptr) x.soft.write_lse(queries, lse);
}

// Queries [query, query + kTile) of one head, all their keys, tile by tile.
void block_of_queries(const AttentionShape& s, const AttentionForward<std::uint16_t>& f, std::int64_t b, std::int64_t h,
                      std::int64_t query, const Scratch& x) {
  const std::int64_t kv = h / (s.heads / s.kv_heads);
  const std::uint16_t* k = f.k + b * s.k.batch + kv * s.k.head;
  const std::uint16_t* v = f.v + b * s.v.batch + kv * s.v.head;
  const std::int64_t queries = least(kTile, s.queries - query);
  transpose_pairs(f.q + b * s.q.batch + h * s.q.head + query * s.q.token, s.q.token, queries, s.depth, x.query);
  x.soft.start(s);
  const std::int64_t keys = keys_seen(s, query);
  for (std::int64_t key = 0; key < keys; key += kTile) {
    const ScoreTile t = score_tile(s, query, key);
    pair_products_of_tile(k + key * s.k.token, s.k.token, x.query, s, t, x.scores);
    weigh(s, t, mask_tile(s, f.mask, b, h, t, x.extra.mask), keep_tile(s, f.draw, b, h, t, x.extra.rows, x.extra.keep),
          x);
    pair_rows(v + key * s.v.token, s.v.token, t.keys, s.depth, x.value);
    x.soft.shrink_sums(s, t);
    add_over_keys(s, t, x.weight, x.value, x.soft.sum);
  }
  write(s, queries, x, f.out + b * s.out.batch + h * s.out.head + query * s.out.token,
        f.lse != nullptr ? f.lse + (b * s.heads + h) * s.queries + query : nullptr);
}

void run(const AttentionShape& s, const AttentionForward<std::uint16_t>& f) {
  over_query_blocks(s, f.workspace, floats_a_thread(s),
                    [&](std::int64_t b, std::int64_t h, std::int64_t query, float* workspace) {
                      block_of_queries(s, f, b, h, query, scratch_of(s, workspace));
                    });
}

std::int64_t floats(const AttentionShape& s) { return floats_a_thread(s) * s.threads; }

}  // namespace

const AttentionTable<std::uint16_t>& attention_bf16_table() {
  static constexpr AttentionTable<std::uint16_t> kTable = {floats, run};
  return kTable;
}

#else

const AttentionTable<std::uint16_t>& attention_bf16_table() {
  static constexpr AttentionTable<std::uint16_t> kTable = {nullptr, nullptr};
  return kTable;
}

#endif

}  // namespace neap::NEAP_ISA_NS
