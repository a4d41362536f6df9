// What attention's forward and backward share: one tile of scores, kept transposed (a row a key, a lane a query), so
// that maxima, sums and what belongs to a query are vectors and need no reduction over lanes.
#pragma once

#include "ops/attention/attention_simd.h"
#include "ops/attention/tile_simd.h"

namespace neap::NEAP_ISA_NS {
namespace {

// The tile of queries [query, query + queries) and keys [key, key + keys) of one head.
struct ScoreTile {
  std::int64_t query, queries;
  std::int64_t key, keys;
  // Local key j is seen by local query i if j <= i + shift.
  std::int64_t shift;

  // Nothing in it is hidden by causality.
  bool is_whole() const { return shift >= keys - 1; }
  // First vector of queries that sees local key j.
  std::int64_t first_vector(std::int64_t j) const { return j <= shift ? 0 : (j - shift) / kLanes; }
  // Keys that any query of vector v sees, rounded up to whole groups of rows.
  std::int64_t keys_of_vector(std::int64_t v) const {
    const std::int64_t seen = (v + 1) * kLanes + shift;
    return seen <= 0 ? 0 : least(keys, (seen + kRows - 1) / kRows * kRows);
  }
};

constexpr std::int64_t kNoShift = std::int64_t{1} << 60;

NEAP_VM ScoreTile score_tile(const AttentionShape& s, std::int64_t query, std::int64_t key) {
  return {query, least(kTile, s.queries - query), key, least(kTile, s.keys - key),
          s.causal ? query + s.offset - key : kNoShift};
}

// Keys that some query of this block sees.
NEAP_VM std::int64_t keys_seen(const AttentionShape& s, std::int64_t query) {
  if (!s.causal) return s.keys;
  return most(0, least(s.keys, least(s.queries, query + kTile) + s.offset));
}

// dst[j][i] = x_j . y_i, where x are rows and y is transposed ([depth][kTile]); what no query sees is left out.
inline void products_of_tile(const float* x, std::int64_t stride, const float* y, const AttentionShape& s,
                             const ScoreTile& t, float* dst) {
  for (std::int64_t j = 0; j < t.keys; j += kRows) {
    const std::int64_t first = t.first_vector(j) * kLanes;
    const std::int64_t width = whole_vectors(t.queries) - first;
    if (width <= 0) return;
    multiply_rows({.a = x + j * stride,
                   .a_row = stride,
                   .a_k = 1,
                   .b = y + first,
                   .b_row = kTile,
                   .k = s.depth,
                   .c = dst + j * kTile + first,
                   .c_row = kTile,
                   .accumulate = false},
                  least(kRows, t.keys - j), width);
  }
}

// e^x for x <= 0 (a little above is fine); 0 below -86, where f32 has almost no smaller numbers left; NaN stays NaN.
NEAP_VM vf exp_of_score(vf x) {
  constexpr float kShift = 0x1.8p23F;
  constexpr float kLowest = -86.0F;
  const vf bounded = vmax(vset(kLowest), x);
  const vf shifted = vfma(bounded, vset(0x1.715476p0F), vset(kShift));
  const vf n = shifted - kShift;
  const vf r = vfma(n, vset(-kLn2Low), vfma(n, vset(-kLn2High), bounded));
  const vf q = vpoly(r, 0.00138144777F, 0.00836878084F, 0.0416683927F, 0.166665196F, 0.49999994F);
  const vf e = vfma(r * r, q, r) + 1.0F;
  const vf scaled = as_float(as_bits(e) + (as_bits(shifted) << 23));
  return x < kLowest ? vf{} : scaled;
}

// What is added to the tile's scores, [key][query]; null without a mask.
inline const float* mask_tile(const AttentionShape& s, const void* mask, std::int64_t b, std::int64_t h,
                              const ScoreTile& t, float* dst) {
  if (s.mask == MaskKind::kNone) return nullptr;
  const std::int64_t first = b * s.mask_batch + h * s.mask_head + t.query * s.mask_query + t.key * s.mask_key;
  if (s.mask == MaskKind::kAdded && s.mask_key == 1 && s.mask_query != 0) {
    transpose_tile(static_cast<const float*>(mask) + first, s.mask_query, t.queries, t.keys, 1, dst);
    return dst;
  }
  for (std::int64_t j = 0; j < t.keys; ++j) {
    for (std::int64_t i = 0; i < kTile; ++i) {
      const std::int64_t at = first + least(i, t.queries - 1) * s.mask_query + j * s.mask_key;
      dst[j * kTile + i] = s.mask == MaskKind::kAdded                ? static_cast<const float*>(mask)[at]
                           : static_cast<const char*>(mask)[at] != 0 ? 0.0F
                                                                     : -__builtin_inff();
    }
  }
  return dst;
}

// Score of local key j for queries of vector v: masked, and minus infinity where causality hides it.
NEAP_VM vf score(const float* scores, const float* mask, const ScoreTile& t, std::int64_t j, std::int64_t v) {
  const std::int64_t at = j * kTile + v * kLanes;
  vf x = vload(scores + at);
  if (mask != nullptr) x = x + vload(mask + at);
  if (t.is_whole()) return x;
  const auto first = static_cast<std::int32_t>(most(j - t.shift - v * kLanes, 0));
  return vlane() >= first ? x : vset(-__builtin_inff());
}

// Factors of the tile's weights, [key][query]: 0 for those dropped, keep_scale for the others; null without dropout.
// `rows` is a tile of scratch.
inline const float* keep_tile(const AttentionShape& s, const AttentionDraw& draw, std::int64_t b, std::int64_t h,
                              const ScoreTile& t, float* rows, float* dst) {
  if (s.drop == 0) return nullptr;
  constexpr std::int64_t kDraw = 4 * kLanes;
  for (std::int64_t i = 0; i < t.queries; ++i) {
    const std::int64_t at = ((b * s.heads + h) * s.queries + t.query + i) * s.keys + t.key;
    const std::uint64_t index = draw.index + static_cast<std::uint64_t>(at);
    const std::int64_t skip = static_cast<std::int64_t>(index % 4);
    float units[kTile + 2 * kDraw];
    for (std::int64_t j = 0; j < skip + t.keys; j += kDraw) {
      const RandomWords words = in_stream_order(vphilox(draw.key, (index + static_cast<std::uint64_t>(j)) / 4, 0));
      for (int w = 0; w < 4; ++w) vstore(units + j + w * kLanes, vunit_float(words.word[w]));
    }
    for (std::int64_t j = 0; j < t.keys; ++j) rows[i * kTile + j] = units[skip + j] < s.drop ? 0.0F : s.keep_scale;
  }
  transpose_tile(rows, kTile, t.queries, t.keys, 1, dst);
  return dst;
}

}  // namespace
}  // namespace neap::NEAP_ISA_NS
