// Tiles of scores for attention on CUDA. A block of 16 x 16 threads works on a tile of kTile queries by kTile keys in
// shared memory; thread (ty, tx) has the scores of queries ty + 16 i and keys tx + 16 j.
#pragma once

#include <cuda_runtime.h>

#include "device/cuda/random.cuh"
#include "ops/attention/attention_simd.h"

namespace neap::ops {

// Depth is padded with zeros to kDepth; rows of a tile have four floats more, so that 16 bytes a thread meet no bank
// twice.
template <int kDepthPadded, int kTileRows>
struct AttentionTile {
  static constexpr int kDepth = kDepthPadded;
  static constexpr int kTile = kTileRows;
  static constexpr int kRow = kDepth + 4;
  static constexpr int kScoreRow = kTile + 4;
  static constexpr int kEach = kTile / 16;    // queries and keys a thread
  static constexpr int kParts = kDepth / 64;  // of 4 numbers of the depth a thread: tx * 4 + 64 p
  static constexpr int kMatrix = kTile * kRow;
  static constexpr int kScores = kTile * kScoreRow;

  // tile[r][d] = src[(first + r) * token + d], zero outside.
  static __device__ void load(float* tile, const float* src, std::int64_t first, std::int64_t count, std::int64_t token,
                              std::int64_t depth) {
    const int thread = static_cast<int>(threadIdx.y) * 16 + static_cast<int>(threadIdx.x);
    for (int at = thread; at < kTile * kDepth; at += 256) {
      const int r = at / kDepth;
      const int d = at % kDepth;
      const bool is_inside = first + r < count && d < depth;
      tile[r * kRow + d] = is_inside ? src[(first + r) * token + d] : 0;
    }
  }

  // s[i][j] = a[row i of this thread] . b[column j of this thread]
  static __device__ void multiply(const float* a, const float* b, float (&s)[kEach][kEach]) {
    for (int i = 0; i < kEach; ++i) {
      for (int j = 0; j < kEach; ++j) s[i][j] = 0;
    }
    for (int d = 0; d < kDepth; d += 4) {
      float4 x[kEach];
      float4 y[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) x[i] = *reinterpret_cast<const float4*>(a + (threadIdx.y + 16 * i) * kRow + d);
#pragma unroll
      for (int j = 0; j < kEach; ++j) y[j] = *reinterpret_cast<const float4*>(b + (threadIdx.x + 16 * j) * kRow + d);
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
#pragma unroll
        for (int j = 0; j < kEach; ++j) {
          s[i][j] = fmaf(x[i].x, y[j].x, s[i][j]);
          s[i][j] = fmaf(x[i].y, y[j].y, s[i][j]);
          s[i][j] = fmaf(x[i].z, y[j].z, s[i][j]);
          s[i][j] = fmaf(x[i].w, y[j].w, s[i][j]);
        }
      }
    }
  }

  using Sums = float4[kEach][kParts];

  // sums[row] += p[row][t] m[t] over t; with kAcross p is read by columns: p[t][row].
  template <bool kAcross>
  static __device__ void accumulate(const float* p, const float* m, Sums& sums) {
    for (int t = 0; t < kTile; ++t) {
      float4 v[kParts];
#pragma unroll
      for (int k = 0; k < kParts; ++k) {
        v[k] = *reinterpret_cast<const float4*>(m + t * kRow + 64 * k + 4 * static_cast<int>(threadIdx.x));
      }
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const int row = static_cast<int>(threadIdx.y) + 16 * i;
        const float w = kAcross ? p[t * kScoreRow + row] : p[row * kScoreRow + t];
#pragma unroll
        for (int k = 0; k < kParts; ++k) {
          sums[i][k].x = fmaf(w, v[k].x, sums[i][k].x);
          sums[i][k].y = fmaf(w, v[k].y, sums[i][k].y);
          sums[i][k].z = fmaf(w, v[k].z, sums[i][k].z);
          sums[i][k].w = fmaf(w, v[k].w, sums[i][k].w);
        }
      }
    }
  }

  static __device__ void clear(Sums& sums) {
    for (int i = 0; i < kEach; ++i) {
      for (int k = 0; k < kParts; ++k) sums[i][k] = make_float4(0, 0, 0, 0);
    }
  }

  // dst[(first + row) * token + d] = factor[row] * sums
  static __device__ void store(const Sums& sums, const float (&factor)[kEach], float* dst, std::int64_t first,
                               std::int64_t count, std::int64_t token, std::int64_t depth) {
    for (int i = 0; i < kEach; ++i) {
      const std::int64_t row = first + threadIdx.y + 16 * i;
      if (row >= count) continue;
      for (int k = 0; k < kParts; ++k) {
        const float4 v = sums[i][k];
        const float each[4] = {v.x, v.y, v.z, v.w};
        for (int e = 0; e < 4; ++e) {
          const int d = 64 * k + 4 * static_cast<int>(threadIdx.x) + e;
          if (d < depth) dst[row * token + d] = factor[i] * each[e];
        }
      }
    }
  }

  static __device__ void put(const float (&s)[kEach][kEach], float* scores) {
    for (int i = 0; i < kEach; ++i) {
      for (int j = 0; j < kEach; ++j) scores[(threadIdx.y + 16 * i) * kScoreRow + threadIdx.x + 16 * j] = s[i][j];
    }
  }
};

// What hides or drops a weight, for one head of one batch entry.
struct AttentionPair {
  const AttentionShape& s;
  const void* mask;
  std::uint64_t key, index;  // of the random numbers
  std::int64_t b, h;

  // The score behind scale and mask; minus infinity: not seen.
  __device__ float score(float product, std::int64_t i, std::int64_t j) const {
    if (i >= s.queries || j >= s.keys || (s.causal && j > i + s.offset)) return -INFINITY;
    float value = product * s.scale;
    if (s.mask == MaskKind::kNone) return value;
    const std::int64_t at = b * s.mask_batch + h * s.mask_head + i * s.mask_query + j * s.mask_key;
    if (s.mask == MaskKind::kAdded) return value + static_cast<const float*>(mask)[at];
    return static_cast<const unsigned char*>(mask)[at] == 0 ? -INFINITY : value;
  }

  __device__ float keep(std::int64_t i, std::int64_t j) const {
    if (s.drop == 0) return 1;
    const std::int64_t number = ((b * s.heads + h) * s.queries + i) * s.keys + j;
    return draw_unit(key, index + static_cast<std::uint64_t>(number)) < s.drop ? 0 : s.keep_scale;
  }

  // Keys from here on are seen by none of the queries up to `last`.
  __device__ std::int64_t end_for(std::int64_t last) const {
    if (!s.causal) return s.keys;
    const std::int64_t end = last + s.offset + 1;
    return end < 0 ? 0 : end < s.keys ? end : s.keys;
  }
};

}  // namespace neap::ops
