// Attention of bf16 on tensor cores, heads of 64 numbers, without mask and dropout: tiles and running sums as in
// attention_cuda.cu. A warp has R times 16 rows, a block W warps. Backward is two kernels, one by keys and one by
// queries: each result is added up by one warp in order, so the bits do not depend on timing.
#pragma once

#include "ops/attention/attention_span.cuh"

namespace neap::ops {

// Keys and values in two turns of shared memory: the next tile travels while one is worked on.
template <int W>
struct KeyTiles {
  std::uint32_t tiles;
  const Bf16 *keys, *values;
  int count, k_step, v_step;

  __device__ void load(int first, int turn) const {
    const std::uint32_t tile = tiles + static_cast<std::uint32_t>(turn * 2 * kTileBytes);
    load_tile<32 * W>(tile, keys + static_cast<std::int64_t>(first) * k_step, count - first, k_step);
    load_tile<32 * W>(tile + kTileBytes, values + static_cast<std::int64_t>(first) * v_step, count - first, v_step);
  }
  __device__ std::uint32_t keys_at(int turn) const { return tiles + static_cast<std::uint32_t>(turn * 2 * kTileBytes); }
};

template <int W>
__device__ KeyTiles<W> key_tiles(const AttentionTensors& t, const Spot& at, const void* memory) {
  const AttentionShape& s = t.s;
  return {shared_address(memory),
          t.k + at.b * s.k.batch + at.kv * s.k.head,
          t.v + at.b * s.v.batch + at.kv * s.v.head,
          static_cast<int>(s.keys),
          static_cast<int>(s.k.token),
          static_cast<int>(s.v.token)};
}

// Scores of a tile of keys.
template <int R>
__device__ __forceinline__ void multiply_keys(float (&score)[R][8][4], const Four (&q)[R][4], std::uint32_t k_tile) {
#pragma unroll
  for (int k = 0; k < 4; ++k) {
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const Four b = rows_as_columns(k_tile, 16 * n, k);
#pragma unroll
      for (int r = 0; r < R; ++r) {
        multiply(score[r][2 * n], q[r][k], b.r[0], b.r[1]);
        multiply(score[r][2 * n + 1], q[r][k], b.r[2], b.r[3]);
      }
    }
  }
}

template <int R>
__device__ __forceinline__ void add_product(float (&sums)[R][8][4], const Four (&a)[R], std::uint32_t tile, int row) {
#pragma unroll
  for (int n = 0; n < 4; ++n) {
    const Four b = rows_as_terms(tile, row, n);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      multiply(sums[r][2 * n], a[r], b.r[0], b.r[1]);
      multiply(sums[r][2 * n + 1], a[r], b.r[2], b.r[3]);
    }
  }
}

// Weights of a tile times its values.
template <int R>
__device__ __forceinline__ void add_values(float (&sums)[R][8][4], const float (&weight)[R][8][4],
                                           std::uint32_t v_tile) {
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    Four p[R];
#pragma unroll
    for (int r = 0; r < R; ++r) p[r] = as_operand(weight[r][2 * k], weight[r][2 * k + 1]);
    add_product<R>(sums, p, v_tile, 16 * k);
  }
}

template <int W, int R>
__global__ void __launch_bounds__(32 * W, 16 / W / R) forward_kernel(const __grid_constant__ AttentionTensors t) {
  __shared__ __align__(128) std::byte memory[4 * kTileBytes];
  const AttentionShape& s = t.s;
  const Span span(s);
  const Spot at(s, 16 * R * W);
  const int row = at.first + static_cast<int>(threadIdx.x) / 32 * 16 * R;  // of the warp
  const KeyTiles<W> tiles = key_tiles<W>(t, at, memory);
  Four q[R][4];
#pragma unroll
  for (int r = 0; r < R; ++r) {
    load_rows(q[r], t.q + at.b * s.q.batch + at.h * s.q.head, row + 16 * r, s.queries, s.q.token);
  }
  float sums[R][8][4] = {};
  float top[R][2];
  float total[R][2] = {};
#pragma unroll
  for (int r = 0; r < R; ++r) top[r][0] = top[r][1] = -INFINITY;
  const float scale = s.scale * kLog2E;
  const int end = span.keys_for(at.first + 16 * R * W - 1);
  const int warp_end = span.keys_for(row + 16 * R - 1);
  if (end > 0) tiles.load(0, 0);
  commit_loads();
  int turn = 0;
  for (int first = 0; first < end; first += kTileRows, turn ^= 1) {
    if (first + kTileRows < end) tiles.load(first + kTileRows, turn ^ 1);
    commit_loads();
    wait_for_loads<1>();
    __syncthreads();
    if (first < warp_end) {
      const std::uint32_t k_tile = tiles.keys_at(turn);
      float score[R][8][4] = {};
      multiply_keys<R>(score, q, k_tile);
      const bool is_whole =
          first + kTileRows <= span.keys && (!span.causal || first + kTileRows - 1 <= row + span.offset);
#pragma unroll
      for (int r = 0; r < R; ++r) {
        if (!is_whole) hide_unseen(span, score[r], row + 16 * r, first);
        soften(score[r], sums[r], top[r], total[r], scale);
      }
      add_values<R>(sums, score, k_tile + kTileBytes);
    }
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < R; ++r) {
    float factor[2];
    finish_rows(t, span, at, row + 16 * r, top[r], total[r], factor);
    store_rows(sums[r], factor, t.y + at.b * s.out.batch + at.h * s.out.head, row + 16 * r, s.queries, s.out.token);
  }
}

// delta = dout . out, 8 lanes a query and head.
static __global__ void delta_kernel(const __grid_constant__ AttentionTensors t) {
  const AttentionShape& s = t.s;
  const std::int64_t number = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 8;
  if (number >= s.batch * s.heads * s.queries) return;
  const std::int64_t h = number % s.heads;  // neighbours in memory
  const std::int64_t i = number / s.heads % s.queries;
  const std::int64_t b = number / s.heads / s.queries;
  const std::int64_t at = b * s.out.batch + i * s.out.token + h * s.out.head + threadIdx.x % 8 * 8;
  float x[kVector];
  float y[kVector];
  load8(t.dout + at, x);
  load8(t.out + at, y);
  float sum = 0;
  for (int k = 0; k < kVector; ++k) sum = fmaf(x[k], y[k], sum);
  for (int step = 4; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, step);
  if (threadIdx.x % 8 == 0) t.delta[(b * s.heads + h) * s.queries + i] = sum;
}

// 16 rows of the block against 16 columns of a tile: two products over the 64 numbers.
template <int R>
__device__ void two_products(float (&first)[R][2][4], float (&second)[R][2][4], const Four (&a)[R][4],
                             const Four (&b)[R][4], std::uint32_t a_tile, std::uint32_t b_tile, int column) {
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const Four x = rows_as_columns(a_tile, column, k);
    const Four y = rows_as_columns(b_tile, column, k);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      multiply(first[r][0], a[r][k], x.r[0], x.r[1]);
      multiply(first[r][1], a[r][k], x.r[2], x.r[3]);
      multiply(second[r][0], b[r][k], y.r[0], y.r[1]);
      multiply(second[r][1], b[r][k], y.r[2], y.r[3]);
    }
  }
}

// What a block of keys has in registers, and the tile of queries that it meets.
struct QueryTile {
  std::uint32_t q, d;
  const float *lse, *delta;
  int first;
};

// Sixteen queries of a tile against the warp's keys. `kMasked`: some pairs are not seen.
template <bool kMasked>
__device__ void keys_part(const Span& span, const QueryTile& tile, int part, int row, float scale,
                          const Four (&k)[1][4], const Four (&v)[1][4], float (&dk)[1][8][4], float (&dv)[1][8][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float p[1][2][4] = {};
  float dp[1][2][4] = {};
  two_products<1>(p, dp, k, v, tile.q, tile.d, 16 * part);
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int column = 16 * part + 8 * n + lane % 4 * 2 + i % 2;
      const float lse = tile.lse[column];
      float weight = exp2_of(fmaf(p[0][n][i], scale, -lse * kLog2E));
      if (kMasked) {
        const int query = tile.first + column;
        const bool is_seen = query < span.queries && lse != -INFINITY && span.sees(query, row + lane / 4 + 8 * (i / 2));
        if (!is_seen) weight = 0;
      }
      p[0][n][i] = weight;
      dp[0][n][i] = weight * (dp[0][n][i] - tile.delta[column]);
    }
  }
  const Four weights[1] = {as_operand(p[0][0], p[0][1])};
  const Four slopes[1] = {as_operand(dp[0][0], dp[0][1])};
  add_product<1>(dv, weights, tile.d, 16 * part);
  add_product<1>(dk, slopes, tile.q, 16 * part);
}

// A tile of queries in its turn of shared memory, and what belongs to its rows.
template <int W>
__device__ __forceinline__ void load_queries(const AttentionTensors& t, const Span& span, const QueryWalk::Place& at,
                                             std::uint32_t tile, std::uint32_t lines) {
  const AttentionShape& s = t.s;
  const int b = static_cast<int>(blockIdx.z);
  const int left = span.queries - at.first;
  const int q_step = static_cast<int>(s.q.token);
  const int d_step = static_cast<int>(s.out.token);
  load_tile<32 * W>(tile, t.q + b * s.q.batch + at.h * s.q.head + static_cast<std::int64_t>(at.first) * q_step, left,
                    q_step);
  load_tile<32 * W>(tile + kTileBytes,
                    t.dout + b * s.out.batch + at.h * s.out.head + static_cast<std::int64_t>(at.first) * d_step, left,
                    d_step);
  load_lines<32 * W>(t, lines, (b * s.heads + at.h) * s.queries + at.first, left);
}

// A tile of queries against the warp's keys.
__device__ __forceinline__ void keys_tile(const Span& span, const QueryTile& tile, int row, float scale,
                                          const Four (&k)[1][4], const Four (&v)[1][4], float (&dk)[1][8][4],
                                          float (&dv)[1][8][4]) {
  const int first = tile.first;
  const bool is_whole =
      first + kTileRows <= span.queries && row + 16 <= span.keys && (!span.causal || row + 15 <= first + span.offset);
  if (is_whole) {
#pragma unroll
    for (int part = 0; part < 4; ++part) keys_part<false>(span, tile, part, row, scale, k, v, dk, dv);
  } else {
#pragma unroll 1
    for (int part = 0; part < 4; ++part) {
      if (span.causal && row > first + 16 * part + 15 + span.offset) continue;  // none of these queries sees the keys
      keys_part<true>(span, tile, part, row, scale, k, v, dk, dv);
    }
  }
}

// dk and dv: a block has some keys of one head of k, and goes through the queries of every head that uses them.
template <int W, int M>
__global__ void __launch_bounds__(32 * W, M) keys_kernel(const __grid_constant__ AttentionTensors t) {
  __shared__ __align__(128) std::byte memory[4 * kTileBytes];
  __shared__ __align__(16) float lines[2][2][kTileRows];
  const AttentionShape& s = t.s;
  const Span span(s);
  const int b = static_cast<int>(blockIdx.z);
  const int kv = static_cast<int>(blockIdx.y);
  const int block = static_cast<int>(blockIdx.x) * (16 * W);
  const int row = block + static_cast<int>(threadIdx.x) / 32 * 16;
  const std::uint32_t tiles = shared_address(memory);
  const std::uint32_t lines_at = shared_address(lines);
  const float scale = s.scale * kLog2E;
  Four k[1][4];
  Four v[1][4];
  load_rows(k[0], t.k + b * s.k.batch + kv * s.k.head, row, s.keys, s.k.token);
  load_rows(v[0], t.v + b * s.v.batch + kv * s.v.head, row, s.keys, s.v.token);
  float dk[1][8][4] = {};
  float dv[1][8][4] = {};
  const auto tile_at = [&](int turn) { return tiles + static_cast<std::uint32_t>(turn * 2 * kTileBytes); };
  const auto load = [&](const QueryWalk::Place& at, int turn) {
    load_queries<W>(t, span, at, tile_at(turn), lines_at + static_cast<std::uint32_t>(turn * 2 * kTileRows * 4));
  };
  const QueryWalk walk(s, span, kv, block);
  QueryWalk::Place at = walk.begin(kv);
  if (walk.has(at)) load(at, 0);
  commit_loads();
  for (int turn = 0; walk.has(at); turn ^= 1) {
    const QueryWalk::Place next = walk.next(at, span);
    if (walk.has(next)) load(next, turn ^ 1);
    commit_loads();
    wait_for_loads<1>();
    __syncthreads();
    const std::uint32_t q_tile = tile_at(turn);
    keys_tile(span, {q_tile, q_tile + kTileBytes, lines[turn][0], lines[turn][1], at.first}, row, scale, k, v, dk, dv);
    __syncthreads();
    at = next;
  }
  const float one[2] = {1, 1};
  const float scales[2] = {s.scale, s.scale};
  if (t.dv != nullptr) store_rows(dv[0], one, t.dv + b * s.v.batch + kv * s.v.head, row, s.keys, s.v.token);
  if (t.dk != nullptr) store_rows(dk[0], scales, t.dk + b * s.k.batch + kv * s.k.head, row, s.keys, s.k.token);
}

// Sixteen keys of a tile against the warp's queries.
template <int R, bool kMasked>
__device__ void queries_part(const Span& span, std::uint32_t k_tile, std::uint32_t v_tile, int key, int part, int row,
                             float scale, const float (&level)[R][2], const float (&delta)[R][2], const Four (&q)[R][4],
                             const Four (&d)[R][4], float (&dq)[R][8][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float p[R][2][4] = {};
  float dp[R][2][4] = {};
  two_products<R>(p, dp, q, d, k_tile, v_tile, 16 * part);
  Four slopes[R];
#pragma unroll
  for (int r = 0; r < R; ++r) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int half = i / 2;
        float weight = exp2_of(fmaf(p[r][n][i], scale, -level[r][half]));
        if (kMasked && (level[r][half] == -INFINITY || !span.sees(row + 16 * r + lane / 4 + 8 * half,
                                                                  key + 16 * part + 8 * n + lane % 4 * 2 + i % 2))) {
          weight = 0;
        }
        dp[r][n][i] = weight * (dp[r][n][i] - delta[r][half]);
      }
    }
    slopes[r] = as_operand(dp[r][0], dp[r][1]);
  }
  add_product<R>(dq, slopes, k_tile, 16 * part);
}

// What belongs to the warp's queries: their levels, deltas; whether one of them sees no key.
template <int R>
__device__ __forceinline__ bool load_levels(const AttentionTensors& t, const Span& span, const Spot& at, int row,
                                            float (&level)[R][2], float (&delta)[R][2]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  bool has_blind = false;
#pragma unroll
  for (int r = 0; r < R; ++r) {
    for (int half = 0; half < 2; ++half) {
      const int query = row + 16 * r + lane / 4 + 8 * half;
      level[r][half] = query < span.queries ? t.lse[at.line + query] * kLog2E : INFINITY;
      delta[r][half] = query < span.queries ? t.delta[at.line + query] : 0;
      has_blind = has_blind || level[r][half] == -INFINITY;
    }
  }
  return has_blind;
}

template <int W, int R, int M>
__global__ void __launch_bounds__(32 * W, M) queries_kernel(const __grid_constant__ AttentionTensors t) {
  __shared__ __align__(128) std::byte memory[4 * kTileBytes];
  const AttentionShape& s = t.s;
  const Span span(s);
  const Spot at(s, 16 * R * W);
  const int row = at.first + static_cast<int>(threadIdx.x) / 32 * 16 * R;
  const float scale = s.scale * kLog2E;
  const KeyTiles<W> tiles = key_tiles<W>(t, at, memory);
  Four q[R][4];
  Four d[R][4];
  float level[R][2];
  float delta[R][2];
#pragma unroll
  for (int r = 0; r < R; ++r) {
    load_rows(q[r], t.q + at.b * s.q.batch + at.h * s.q.head, row + 16 * r, s.queries, s.q.token);
    load_rows(d[r], t.dout + at.b * s.out.batch + at.h * s.out.head, row + 16 * r, s.queries, s.out.token);
  }
  const bool has_blind = load_levels<R>(t, span, at, row, level, delta);
  float dq[R][8][4] = {};
  const int end = span.keys_for(at.first + 16 * R * W - 1);
  if (end > 0) tiles.load(0, 0);
  commit_loads();
  int turn = 0;
  for (int first = 0; first < end; first += kTileRows, turn ^= 1) {
    if (first + kTileRows < end) tiles.load(first + kTileRows, turn ^ 1);
    commit_loads();
    wait_for_loads<1>();
    __syncthreads();
    const std::uint32_t k_tile = tiles.keys_at(turn);
    const std::uint32_t v_tile = k_tile + kTileBytes;
    const bool is_whole =
        first + kTileRows <= span.keys && (!span.causal || first + kTileRows - 1 <= row + span.offset);
    if (is_whole && __all_sync(0xffffffffU, !has_blind)) {
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        queries_part<R, false>(span, k_tile, v_tile, first, part, row, scale, level, delta, q, d, dq);
      }
    } else {
#pragma unroll 1
      for (int part = 0; part < 4; ++part) {
        if (span.causal && first + 16 * part > row + 16 * R - 1 + span.offset) continue;  // none of the keys is seen
        queries_part<R, true>(span, k_tile, v_tile, first, part, row, scale, level, delta, q, d, dq);
      }
    }
    __syncthreads();
  }
  const float scales[2] = {s.scale, s.scale};
#pragma unroll
  for (int r = 0; r < R; ++r) {
    store_rows(dq[r], scales, t.dq + at.b * s.q.batch + at.h * s.q.head, row + 16 * r, s.queries, s.q.token);
  }
}

}  // namespace neap::ops
