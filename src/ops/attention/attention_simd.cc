#include "ops/attention/attention_simd.h"

#include <omp.h>

#include "ops/attention/scores_simd.h"

namespace neap::NEAP_ISA_NS {
namespace {

constexpr float kLowest = -3.402823466e38F;

// One thread's scratch.
struct Scratch {
  float* query;   // transposed and scaled: [depth][kTile]
  float* scores;  // [key][query]; then the weights
  float* value;   // [key][width]
  float* sum;     // [query][width]
  float* top;     // largest score so far, a query
  float* total;   // sum of e^(score - top)
  float* shrink;  // what the last tile's new maxima make of the sums before it
  float* mask;    // tiles
  float* rows;
  float* keep;
};

std::int64_t floats_a_thread(const AttentionShape& s) {
  const std::int64_t width = whole_vectors(s.depth);
  const std::int64_t tiles = 1 + (s.mask != MaskKind::kNone ? 1 : 0) + (s.drop > 0 ? 2 : 0);
  return 3 * kTile * width + tiles * kTile * kTile + 3 * kTile;
}

Scratch scratch_of(const AttentionShape& s, float* at) {
  const std::int64_t wide = kTile * whole_vectors(s.depth);
  Scratch x{};
  const auto take = [&at](std::int64_t floats) {
    float* here = at;
    at += floats;
    return here;
  };
  x.query = take(wide);
  x.value = take(wide);
  x.sum = take(wide);
  x.scores = take(kTile * kTile);
  x.top = take(kTile);
  x.total = take(kTile);
  x.shrink = take(kTile);
  if (s.mask != MaskKind::kNone) x.mask = take(kTile * kTile);
  if (s.drop > 0) {
    x.rows = take(kTile * kTile);
    x.keep = take(kTile * kTile);
  }
  return x;
}

// Scores to weights, relative to the largest score so far.
inline void weigh(const ScoreTile& t, const float* mask, const float* keep, const Scratch& x) {
  for (std::int64_t v = 0; v * kLanes < t.queries; ++v) {
    const std::int64_t keys = t.keys_of_vector(v);
    const vf before = vload(x.top + v * kLanes);
    vf top = before;
    for (std::int64_t j = 0; j < keys; ++j) top = vmax(top, score(x.scores, mask, t, j, v));
    const vf shrink = exp_of_score(before - top);
    vf total = vload(x.total + v * kLanes) * shrink;
    for (std::int64_t j = 0; j < keys; ++j) {
      const vf e = exp_of_score(score(x.scores, mask, t, j, v) - top);
      total = total + e;
      const std::int64_t at = j * kTile + v * kLanes;
      vstore(x.scores + at, keep != nullptr ? e * vload(keep + at) : e);
    }
    vstore(x.top + v * kLanes, top);
    vstore(x.total + v * kLanes, total);
    vstore(x.shrink + v * kLanes, shrink);
  }
}

// sum[i] = shrink[i] * sum[i] + sum over j of weight[i][j] * value[j]
inline void add_values(const AttentionShape& s, const ScoreTile& t, const Scratch& x) {
  const std::int64_t width = whole_vectors(s.depth);
  for (std::int64_t i = 0; i < t.queries; ++i) {
    if (x.shrink[i] == 1.0F) continue;
    float* row = x.sum + i * width;
    for (std::int64_t c = 0; c < width; c += kLanes) vstore(row + c, vload(row + c) * x.shrink[i]);
  }
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
                   .c = x.sum + i * width,
                   .c_row = width,
                   .accumulate = true},
                  rows, width);
  }
}

inline void write(const AttentionShape& s, const ScoreTile& t, const Scratch& x, float* out, float* lse) {
  const std::int64_t width = whole_vectors(s.depth);
  for (std::int64_t i = 0; i < t.queries; ++i) {
    const float scale = x.total[i] == 0.0F ? 0.0F : 1.0F / x.total[i];  // no key is seen: 0
    for (std::int64_t c = 0; c < s.depth; c += kLanes) {
      vstore_n(out + i * s.out.token + c, vload(x.sum + i * width + c) * scale, least(kLanes, s.depth - c));
    }
  }
  if (lse == nullptr) return;
  for (std::int64_t i = 0; i < t.queries; i += kLanes) {
    vstore_n(lse + i, vload(x.top + i) + vlog(vload(x.total + i)), least(kLanes, t.queries - i));
  }
}

// Queries [query, query + kTile) of one head, all their keys, tile by tile.
void block_of_queries(const AttentionShape& s, const AttentionForward& f, std::int64_t b, std::int64_t h,
                      std::int64_t query, const Scratch& x) {
  const std::int64_t kv = h / (s.heads / s.kv_heads);
  const float* q = f.q + b * s.q.batch + h * s.q.head + query * s.q.token;
  const float* k = f.k + b * s.k.batch + kv * s.k.head;
  const float* v = f.v + b * s.v.batch + kv * s.v.head;
  const std::int64_t queries = least(kTile, s.queries - query);
  transpose_tile(q, s.q.token, queries, s.depth, s.scale, x.query);
  for (std::int64_t i = 0; i < kTile * whole_vectors(s.depth); ++i) x.sum[i] = 0;
  for (std::int64_t i = 0; i < kTile; ++i) {
    x.top[i] = kLowest;
    x.total[i] = 0;
  }
  const std::int64_t keys = keys_seen(s, query);
  for (std::int64_t key = 0; key < keys; key += kTile) {
    const ScoreTile t = score_tile(s, query, key);
    products_of_tile(k + key * s.k.token, s.k.token, x.query, s, t, x.scores);
    weigh(t, mask_tile(s, f.mask, b, h, t, x.mask), keep_tile(s, f.draw, b, h, t, x.rows, x.keep), x);
    copy_rows(v + key * s.v.token, s.v.token, t.keys, s.depth, 1, x.value);
    add_values(s, t, x);
  }
  write(s, score_tile(s, query, 0), x, f.out + b * s.out.batch + h * s.out.head + query * s.out.token,
        f.lse != nullptr ? f.lse + (b * s.heads + h) * s.queries + query : nullptr);
}

void run(const AttentionShape& s, const AttentionForward& f) {
  const std::int64_t blocks = (s.queries + kTile - 1) / kTile;
  const std::int64_t each = floats_a_thread(s);
#pragma omp parallel for schedule(static, 1) num_threads(s.threads)
  for (std::int64_t u = 0; u < s.batch * s.heads * blocks; ++u) {
    const std::int64_t head = u / blocks;
    // Causal blocks grow with their number: up and down by turns, so that threads get equal shares.
    const std::int64_t block = head % 2 == 0 ? blocks - 1 - u % blocks : u % blocks;
    block_of_queries(s, f, head / s.heads, head % s.heads, block * kTile,
                     scratch_of(s, f.workspace + omp_get_thread_num() * each));
  }
}

std::int64_t floats(const AttentionShape& s) { return floats_a_thread(s) * s.threads; }

}  // namespace

const AttentionTable& attention_table() {
  static constexpr AttentionTable kTable = {floats, run};
  return kTable;
}

}  // namespace neap::NEAP_ISA_NS
