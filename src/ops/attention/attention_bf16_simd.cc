#include "ops/attention/attention_bf16_simd.h"

#include <omp.h>

#include "ops/attention/pairs_simd.h"

namespace neap::NEAP_ISA_NS {

const AttentionBf16Table& attention_bf16_grad_table();

#if defined(__AVX512F__)

namespace {

constexpr float kLowest = -3.402823466e38F;

// One thread's scratch.
struct Scratch {
  std::uint32_t* query;   // transposed pairs: [depth / 2][kTile]
  std::uint32_t* value;   // pairs of keys: [key / 2][width]
  std::uint32_t* weight;  // pairs of keys: [key / 2][query]
  float* scores;          // [key][query]
  float* sum;             // [query][width]
  float* top;             // largest score so far, a query
  float* total;           // sum of e^(score - top)
  float* shrink;          // what the last tile's new maxima make of the sums before it
  float* mask;            // tiles
  float* rows;
  float* keep;
};

struct Place {
  float* at;
  float* floats(std::int64_t n) {
    float* here = at;
    at += n;
    return here;
  }
  std::uint32_t* pairs(std::int64_t n) { return reinterpret_cast<std::uint32_t*>(floats(n)); }
};

std::int64_t floats_a_thread(const AttentionShape& s) {
  const std::int64_t tiles = 2 + (s.mask != MaskKind::kNone ? 1 : 0) + (s.drop > 0 ? 2 : 0);
  return 3 * kTile * whole_vectors(s.depth) + tiles * kTile * kTile + 3 * kTile;
}

Scratch scratch_of(const AttentionShape& s, float* at) {
  const std::int64_t wide = kTile * whole_vectors(s.depth);
  Place place{at};
  Scratch x{};
  x.query = place.pairs(wide);
  x.value = place.pairs(wide);
  x.sum = place.floats(wide);
  x.scores = place.floats(kTile * kTile);
  x.weight = place.pairs(kTile * kTile);
  x.top = place.floats(kTile);
  x.total = place.floats(kTile);
  x.shrink = place.floats(kTile);
  if (s.mask != MaskKind::kNone) x.mask = place.floats(kTile * kTile);
  if (s.drop > 0) {
    x.rows = place.floats(kTile * kTile);
    x.keep = place.floats(kTile * kTile);
  }
  return x;
}

// Scores to weights, relative to the largest score so far. The total has them as they were before they were rounded.
inline void weigh(const AttentionShape& s, const ScoreTile& t, const float* mask, const float* keep, const Scratch& x) {
  for (std::int64_t v = 0; v * kLanes < t.queries; ++v) {
    const std::int64_t keys = t.keys_of_vector(v);
    const vf before = vload(x.top + v * kLanes);
    vf top = before;
    for (std::int64_t j = 0; j < keys; ++j) top = vmax(top, scaled_score(x.scores, mask, t, s.scale, j, v));
    const vf shrink = exp_of_score(before - top);
    vf total = vload(x.total + v * kLanes) * shrink;
    for (std::int64_t j = 0; j < keys; j += 2) {
      vh weight[2] = {};
      for (std::int64_t p = 0; p < 2 && j + p < keys; ++p) {
        const vf e = exp_of_score(scaled_score(x.scores, mask, t, s.scale, j + p, v) - top);
        total = total + e;
        weight[p] = vround_bf16(keep != nullptr ? e * vload(keep + (j + p) * kTile + v * kLanes) : e);
      }
      vstore(x.weight + j / 2 * kTile + v * kLanes, vpairs(weight[0], weight[1]));
    }
    vstore(x.top + v * kLanes, top);
    vstore(x.total + v * kLanes, total);
    vstore(x.shrink + v * kLanes, shrink);
  }
}

inline void shrink_sums(const AttentionShape& s, const ScoreTile& t, const Scratch& x) {
  const std::int64_t width = whole_vectors(s.depth);
  for (std::int64_t i = 0; i < t.queries; ++i) {
    if (x.shrink[i] == 1.0F) continue;
    float* row = x.sum + i * width;
    for (std::int64_t c = 0; c < width; c += kLanes) vstore(row + c, vload(row + c) * x.shrink[i]);
  }
}

inline void write(const AttentionShape& s, std::int64_t queries, const Scratch& x, std::uint16_t* out, float* lse) {
  const std::int64_t width = whole_vectors(s.depth);
  for (std::int64_t i = 0; i < queries; ++i) {
    const float scale = x.total[i] == 0.0F ? 0.0F : 1.0F / x.total[i];  // no key is seen: 0
    store_scaled(out + i * s.out.token, x.sum + i * width, scale, s.depth);
  }
  if (lse == nullptr) return;
  for (std::int64_t i = 0; i < queries; i += kLanes) {
    vstore_n(lse + i, vload(x.top + i) + vlog(vload(x.total + i)), least(kLanes, queries - i));
  }
}

// Queries [query, query + kTile) of one head, all their keys, tile by tile.
void block_of_queries(const AttentionShape& s, const AttentionForwardBf16& f, std::int64_t b, std::int64_t h,
                      std::int64_t query, const Scratch& x) {
  const std::int64_t kv = h / (s.heads / s.kv_heads);
  const std::uint16_t* k = f.k + b * s.k.batch + kv * s.k.head;
  const std::uint16_t* v = f.v + b * s.v.batch + kv * s.v.head;
  const std::int64_t queries = least(kTile, s.queries - query);
  transpose_pairs(f.q + b * s.q.batch + h * s.q.head + query * s.q.token, s.q.token, queries, s.depth, x.query);
  for (std::int64_t i = 0; i < kTile * whole_vectors(s.depth); ++i) x.sum[i] = 0;
  for (std::int64_t i = 0; i < kTile; ++i) {
    x.top[i] = kLowest;
    x.total[i] = 0;
  }
  const std::int64_t keys = keys_seen(s, query);
  for (std::int64_t key = 0; key < keys; key += kTile) {
    const ScoreTile t = score_tile(s, query, key);
    pair_products_of_tile(k + key * s.k.token, s.k.token, x.query, s, t, x.scores);
    weigh(s, t, mask_tile(s, f.mask, b, h, t, x.mask), keep_tile(s, f.draw, b, h, t, x.rows, x.keep), x);
    pair_rows(v + key * s.v.token, s.v.token, t.keys, s.depth, x.value);
    shrink_sums(s, t, x);
    add_over_keys(s, t, x.weight, x.value, x.sum);
  }
  write(s, queries, x, f.out + b * s.out.batch + h * s.out.head + query * s.out.token,
        f.lse != nullptr ? f.lse + (b * s.heads + h) * s.queries + query : nullptr);
}

void run(const AttentionShape& s, const AttentionForwardBf16& f) {
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

const AttentionBf16Table& attention_bf16_table() {
  static const AttentionBf16Table kTable = {floats, run, attention_bf16_grad_table().grad_floats,
                                            attention_bf16_grad_table().grad};
  return kTable;
}

#else

const AttentionBf16Table& attention_bf16_table() {
  static constexpr AttentionBf16Table kTable = {nullptr, nullptr, nullptr, nullptr};
  return kTable;
}

#endif

}  // namespace neap::NEAP_ISA_NS
