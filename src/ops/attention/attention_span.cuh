// What the kernels of attention of bf16 share, by warps (attention_bf16.cuh) and by warpgroups (attention_hopper.cu):
// which pairs are seen, which tiles a block meets, and what becomes of scores. Positions are counted in 32 bits:
// arithmetic in 64 took more instructions than the products.
#pragma once

#include "device/cuda/launch.cuh"
#include "ops/attention/attention_mma.cuh"
#include "ops/attention/attention_simd.h"

namespace neap::ops {

inline constexpr float kLog2E = 1.4426950408889634F;

struct AttentionTensors {
  AttentionShape s;
  const Bf16 *q, *k, *v;
  const Bf16 *dout, *out;
  float *lse, *delta;  // [batch, heads, queries]
  Bf16 *y, *dq, *dk, *dv;
};

// The part of a shape that inner loops need.
struct Span {
  int queries, keys, offset;
  bool causal;

  __device__ explicit Span(const AttentionShape& s)
      : queries(static_cast<int>(s.queries)),
        keys(static_cast<int>(s.keys)),
        offset(static_cast<int>(s.offset)),
        causal(s.causal) {}
  __device__ bool sees(int query, int key) const { return key < keys && (!causal || key <= query + offset); }
  __device__ int keys_for(int last_query) const {
    if (!causal) return keys;
    const int end = last_query + offset + 1;
    return end < 0 ? 0 : end < keys ? end : keys;
  }
};

// Where a block works; causal blocks with the most to do come first.
struct Spot {
  int b, h, kv, first;
  std::int64_t line;

  __device__ Spot(const AttentionShape& s, int rows)
      : b(static_cast<int>(blockIdx.z)),
        h(static_cast<int>(blockIdx.y)),
        kv(h / static_cast<int>(s.heads / s.kv_heads)),
        first(static_cast<int>(gridDim.x - 1 - blockIdx.x) * rows),
        line((b * s.heads + h) * s.queries) {}
};

__device__ inline float row_max(float v) {
  v = fmaxf(v, __shfl_xor_sync(0xffffffffU, v, 1));
  return fmaxf(v, __shfl_xor_sync(0xffffffffU, v, 2));
}
__device__ inline float row_sum(float v) {
  v += __shfl_xor_sync(0xffffffffU, v, 1);
  return v + __shfl_xor_sync(0xffffffffU, v, 2);
}

// Scores of a tile of keys from `first` on, of which the warp's 16 queries from `row` on do not see all.
__device__ __forceinline__ void hide_unseen(const Span& span, float (&score)[8][4], int row, int first) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int query = row + lane / 4 + 8 * (i / 2);
      if (!span.sees(query, first + 8 * n + lane % 4 * 2 + i % 2)) score[n][i] = -INFINITY;
    }
  }
}

// Behind the last tile of keys: what the sums of the warp's 16 queries are multiplied with; lse is written.
__device__ __forceinline__ void finish_rows(const AttentionTensors& t, const Span& span, const Spot& at, int row,
                                            const float (&top)[2], const float (&total)[2], float (&factor)[2]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int half = 0; half < 2; ++half) {
    const float all = row_sum(total[half]);
    factor[half] = all == 0 ? 0 : 1 / all;
    const int query = row + lane / 4 + 8 * half;
    if (t.lse != nullptr && lane % 4 == 0 && query < span.queries) {
      t.lse[at.line + query] = all == 0 ? -INFINITY : fmaf(top[half], t.s.scale, logf(all));
    }
  }
}

// Which queries a block of keys meets, in tiles: from the first that sees a key of it on, head by head.
struct QueryWalk {
  int start, last_head, heads;

  __device__ QueryWalk(const AttentionShape& s, const Span& span, int kv, int block)
      : heads(static_cast<int>(s.heads / s.kv_heads)) {
    const int seen = span.causal && block > span.offset ? block - span.offset : 0;  // by the first query
    start = seen / kTileRows * kTileRows;
    last_head = start < span.queries ? (kv + 1) * heads : kv * heads;
  }
  struct Place {
    int h, first;
  };
  __device__ Place begin(int kv) const { return {kv * heads, start}; }
  __device__ bool has(const Place& at) const { return at.h < last_head; }
  __device__ Place next(const Place& at, const Span& span) const {
    Place out{at.h, at.first + kTileRows};
    if (out.first >= span.queries) {
      ++out.h;
      out.first = start;
    }
    return out;
  }
};

// lse and delta of a tile of queries, from number `line` on, of which `left` are there: 64 floats, then 64.
template <int kThreads>
__device__ __forceinline__ void load_lines(const AttentionTensors& t, std::uint32_t lines, std::int64_t line,
                                           int left) {
  for (int i = static_cast<int>(threadIdx.x); i < 2 * kTileRows; i += kThreads) {
    const int column = i % kTileRows;
    const bool is_there = column < left;
    const float* from = (i < kTileRows ? t.lse : t.delta) + line + (is_there ? column : 0);
    load_float(lines + static_cast<std::uint32_t>(i * 4), from, is_there);
  }
}

// One tile's scores of R x 16 queries become weights against the running maximum; sums and totals shrink with it.
__device__ inline void soften(float (&score)[8][4], float (&sums)[8][4], float (&top)[2], float (&total)[2],
                              float scale) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float highest = -INFINITY;
#pragma unroll
    for (int n = 0; n < 8; ++n) highest = fmaxf(highest, fmaxf(score[n][2 * half], score[n][2 * half + 1]));
    const float now = fmaxf(top[half], row_max(highest));
    const float level = now == -INFINITY ? 0 : now * scale;
    const float shrink = exp2_of(fmaf(top[half], scale, -level));
    top[half] = now;
    total[half] *= shrink;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        score[n][i] = exp2_of(fmaf(score[n][i], scale, -level));
        total[half] += score[n][i];
        sums[n][i] *= shrink;
      }
    }
  }
}

}  // namespace neap::ops
