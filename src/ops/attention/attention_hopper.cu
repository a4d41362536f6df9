// Attention of bf16 on Hopper, for the same calls as attention_bf16.cuh: a block is a warpgroup with 64 rows. (Two that
// share the tiles they meet were slower, and so were fewer blocks a multiprocessor with more registers.) As there, each
// result is added up by one warpgroup in order.
#include "ops/attention/attention.h"
#include "ops/attention/attention_launch.cuh"
#include "ops/attention/attention_span.cuh"
#include "ops/attention/attention_wgmma.cuh"
#include "ops/cuda_kernel.h"

namespace neap::ops {
namespace {

constexpr int kGroupThreads = 128;

// Own tiles, then two turns of two others; what stands behind them begins at `end`.
template <int kOwn>
struct Shared {
  static constexpr int kTiles = kOwn + 4;
  static constexpr int kLines = 4 * kTileRows * static_cast<int>(sizeof(float));
  static constexpr int kBytes = kTiles * kTileBytes + kLines + 1024;  // the last to begin where tiles must

  std::uint32_t start;
  __device__ explicit Shared(const unsigned char* memory) : start((shared_address(memory) + 1023U) & ~1023U) {}
  __device__ std::uint32_t own(int which) const { return start + which * kTileBytes; }
  __device__ std::uint32_t other(int turn, int which) const { return start + (kOwn + 2 * turn + which) * kTileBytes; }
  // Floats of a turn: 64, then 64.
  __device__ std::uint32_t lines(int turn) const { return start + kTiles * kTileBytes + turn * 2 * kTileRows * 4; }

  // `from` is the block's first row.
  __device__ void load_own(int which, const Bf16* from, int rows, int step) const {
    load_tile<kGroupThreads>(own(which), from, rows, step);
  }
  __device__ void load_other(int turn, int which, const Bf16* from, int first, int rows, int step) const {
    load_tile<kGroupThreads>(other(turn, which), from + static_cast<std::int64_t>(first) * step, rows - first, step);
  }
};

// Two tensors whose rows a block meets tile by tile.
template <int kOwn>
struct Others {
  Shared<kOwn> shared;
  const Bf16 *a, *b;
  int rows, a_step, b_step;

  __device__ __forceinline__ void load(int first, int turn) const {
    shared.load_other(turn, 0, a, first, rows, a_step);
    shared.load_other(turn, 1, b, first, rows, b_step);
  }
};

template <int kOwn>
__device__ __forceinline__ Others<kOwn> keys_and_values(const Shared<kOwn>& shared, const AttentionTensors& t,
                                                        const Spot& at) {
  const AttentionShape& s = t.s;
  return {shared,
          t.k + at.b * s.k.batch + at.kv * s.k.head,
          t.v + at.b * s.v.batch + at.kv * s.v.head,
          static_cast<int>(s.keys),
          static_cast<int>(s.k.token),
          static_cast<int>(s.v.token)};
}

// The tile of this turn is there for the products of all threads; the next one, if any, is on its way.
__device__ __forceinline__ void await_tile() {
  commit_loads();
  wait_for_loads<1>();
  show_to_products();
  __syncthreads();
}

// score = the rows of one tile times those of another.
__device__ __forceinline__ void product_of(Results& score, std::uint32_t own, std::uint32_t other) {
  begin_products();
  multiply_whole(score, own, other);
  wait_for_products();
  hold(score);
}

// Both of a block's own tiles times the two that it meets in this turn.
template <int kOwn>
__device__ __forceinline__ void both_products(Results& p, Results& dp, const Shared<kOwn>& shared, int turn) {
  begin_products();
  multiply_whole(p, shared.own(0), shared.other(turn, 0));
  multiply_whole(dp, shared.own(1), shared.other(turn, 1));
  wait_for_products();
  hold(p);
  hold(dp);
}

// sums += weights times a tile.
__device__ __forceinline__ void add_weighted(Results& sums, const Results& weights, std::uint32_t tile) {
  Four p[4];
  as_operands(p, weights);
  hold(sums);
  begin_products();
  add_whole(sums, p, tile);
  wait_for_products();
  hold(sums);
}

__device__ float2 two_floats(std::uint32_t address) {
  float2 v;
  asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];\n" : "=f"(v.x), "=f"(v.y) : "r"(address));
  return v;
}

__global__ void __launch_bounds__(kGroupThreads, 4) forward(const __grid_constant__ AttentionTensors t) {
  using Memory = Shared<1>;
  extern __shared__ unsigned char memory[];
  const Memory shared(memory);
  const AttentionShape& s = t.s;
  const Span span(s);
  const Spot at(s, 64);
  const int row = at.first + static_cast<int>(threadIdx.x) / 32 * 16;  // of the warp
  const auto others = keys_and_values(shared, t, at);
  shared.load_own(0, t.q + at.b * s.q.batch + at.h * s.q.head + at.first * s.q.token, span.queries - at.first,
                  static_cast<int>(s.q.token));
  Results sums = {};
  float top[2] = {-INFINITY, -INFINITY};
  float total[2] = {};
  const float scale = s.scale * kLog2E;
  const int end = span.keys_for(at.first + 63);
  if (end > 0) others.load(0, 0);
  commit_loads();
  int turn = 0;
  for (int first = 0; first < end; first += kTileRows, turn ^= 1) {
    if (first + kTileRows < end) others.load(first + kTileRows, turn ^ 1);
    await_tile();
    Results score;
    product_of(score, shared.own(0), shared.other(turn, 0));
    const bool is_whole =
        first + kTileRows <= span.keys && (!span.causal || first + kTileRows - 1 <= at.first + span.offset);
    if (!is_whole) hide_unseen(span, score, row, first);
    soften(score, sums, top, total, scale);
    add_weighted(sums, score, shared.other(turn, 1));
    __syncthreads();
  }
  float factor[2];
  finish_rows(t, span, at, row, top, total, factor);
  store_rows(sums, factor, t.y + at.b * s.out.batch + at.h * s.out.head, row, s.queries, s.out.token);
}

// Weights and slopes of a tile of queries (columns) against a group's keys (rows), in place of scores and products.
template <bool kMasked>
__device__ void slopes_by_keys(const Span& span, Results& p, Results& dp, std::uint32_t lines, int first, int row,
                               float scale) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    const std::uint32_t at = lines + static_cast<std::uint32_t>(8 * n + lane % 4 * 2) * 4;
    const float2 lse = two_floats(at);
    const float2 delta = two_floats(at + kTileRows * 4);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float level = i % 2 == 0 ? lse.x : lse.y;
      float weight = exp2_of(fmaf(p[n][i], scale, -level * kLog2E));
      if (kMasked) {
        const int query = first + 8 * n + lane % 4 * 2 + i % 2;
        const bool is_seen =
            query < span.queries && level != -INFINITY && span.sees(query, row + lane / 4 + 8 * (i / 2));
        if (!is_seen) weight = 0;
      }
      p[n][i] = weight;
      dp[n][i] = weight * (dp[n][i] - (i % 2 == 0 ? delta.x : delta.y));
    }
  }
}

// A tile of queries with their gradients, and lse and delta of its rows.
__device__ __forceinline__ void load_queries(const Shared<2>& shared, const AttentionTensors& t, const Span& span,
                                             const QueryWalk::Place& at, int turn) {
  const AttentionShape& s = t.s;
  const int b = static_cast<int>(blockIdx.z);
  shared.load_other(turn, 0, t.q + b * s.q.batch + at.h * s.q.head, at.first, span.queries,
                    static_cast<int>(s.q.token));
  shared.load_other(turn, 1, t.dout + b * s.out.batch + at.h * s.out.head, at.first, span.queries,
                    static_cast<int>(s.out.token));
  load_lines<kGroupThreads>(t, shared.lines(turn), (b * s.heads + at.h) * s.queries + at.first,
                            span.queries - at.first);
}

// dv += the tile's weights times its gradients, dk += its slopes times its queries.
__device__ __forceinline__ void add_both(Results& dv, const Results& p, Results& dk, const Results& dp,
                                         const Shared<2>& shared, int turn) {
  Four weights[4];
  Four slopes[4];
  as_operands(weights, p);
  as_operands(slopes, dp);
  hold(dv);
  hold(dk);
  begin_products();
  add_whole(dv, weights, shared.other(turn, 1));
  add_whole(dk, slopes, shared.other(turn, 0));
  wait_for_products();
  hold(dv);
  hold(dk);
}

// dk and dv: a block has some keys of one head of k, and goes through the queries of every head that uses them.
__global__ void __launch_bounds__(kGroupThreads, 3) by_keys(const __grid_constant__ AttentionTensors t) {
  using Memory = Shared<2>;
  extern __shared__ unsigned char memory[];
  const Memory shared(memory);
  const AttentionShape& s = t.s;
  const Span span(s);
  const int b = static_cast<int>(blockIdx.z);
  const int kv = static_cast<int>(blockIdx.y);
  const int block = static_cast<int>(blockIdx.x) * 64;
  const int row = block + static_cast<int>(threadIdx.x) / 32 * 16;
  const float scale = s.scale * kLog2E;
  shared.load_own(0, t.k + b * s.k.batch + kv * s.k.head + block * s.k.token, span.keys - block,
                  static_cast<int>(s.k.token));
  shared.load_own(1, t.v + b * s.v.batch + kv * s.v.head + block * s.v.token, span.keys - block,
                  static_cast<int>(s.v.token));
  Results dk = {};
  Results dv = {};
  const QueryWalk walk(s, span, kv, block);
  QueryWalk::Place at = walk.begin(kv);
  if (walk.has(at)) load_queries(shared, t, span, at, 0);
  commit_loads();
  for (int turn = 0; walk.has(at); turn ^= 1) {
    const QueryWalk::Place next = walk.next(at, span);
    if (walk.has(next)) load_queries(shared, t, span, next, turn ^ 1);
    await_tile();
    Results p;
    Results dp;
    both_products(p, dp, shared, turn);
    const bool is_whole = at.first + kTileRows <= span.queries && block + 64 <= span.keys &&
                          (!span.causal || block + 63 <= at.first + span.offset);
    if (is_whole) {
      slopes_by_keys<false>(span, p, dp, shared.lines(turn), at.first, row, scale);
    } else {
      slopes_by_keys<true>(span, p, dp, shared.lines(turn), at.first, row, scale);
    }
    add_both(dv, p, dk, dp, shared, turn);
    __syncthreads();
    at = next;
  }
  const float one[2] = {1, 1};
  const float scales[2] = {s.scale, s.scale};
  if (t.dv != nullptr) store_rows(dv, one, t.dv + b * s.v.batch + kv * s.v.head, row, s.keys, s.v.token);
  if (t.dk != nullptr) store_rows(dk, scales, t.dk + b * s.k.batch + kv * s.k.head, row, s.keys, s.k.token);
}

// Slopes of a tile of keys (columns) against a group's queries (rows), in place of dp.
template <bool kMasked>
__device__ void slopes_by_queries(const Span& span, const Results& p, Results& dp, const float (&level)[2],
                                  const float (&delta)[2], int first, int row, float scale) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int half = i / 2;
      float weight = exp2_of(fmaf(p[n][i], scale, -level[half]));
      if (kMasked &&
          (level[half] == -INFINITY || !span.sees(row + lane / 4 + 8 * half, first + 8 * n + lane % 4 * 2 + i % 2))) {
        weight = 0;
      }
      dp[n][i] = weight * (dp[n][i] - delta[half]);
    }
  }
}

// delta = dout . out of a row, by the four lanes that have it.
__device__ float delta_of(const AttentionTensors& t, const Spot& at, int query) {
  const AttentionShape& s = t.s;
  if (query >= s.queries) return 0;
  const std::int64_t from = at.b * s.out.batch + query * s.out.token + at.h * s.out.head + threadIdx.x % 4 * 16;
  float sum = 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float x[kVector];
    float y[kVector];
    load8(t.dout + from + 8 * half, x);
    load8(t.out + from + 8 * half, y);
    for (int k = 0; k < kVector; ++k) sum = fmaf(x[k], y[k], sum);
  }
  return sum;
}

// lse and delta of the warp's queries; delta is written, too.
__device__ __forceinline__ void make_levels(const AttentionTensors& t, const Span& span, const Spot& at, int row,
                                            float (&level)[2], float (&delta)[2]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int half = 0; half < 2; ++half) {
    const int query = row + lane / 4 + 8 * half;
    level[half] = query < span.queries ? t.lse[at.line + query] * kLog2E : -INFINITY;
    delta[half] = row_sum(delta_of(t, at, query));
    if (lane % 4 == 0 && query < span.queries) t.delta[at.line + query] = delta[half];
  }
}

// dq; and delta, which the kernel by keys reads.
__global__ void __launch_bounds__(kGroupThreads, 4) by_queries(const __grid_constant__ AttentionTensors t) {
  using Memory = Shared<2>;
  extern __shared__ unsigned char memory[];
  const Memory shared(memory);
  const AttentionShape& s = t.s;
  const Span span(s);
  const Spot at(s, 64);
  const int row = at.first + static_cast<int>(threadIdx.x) / 32 * 16;
  const float scale = s.scale * kLog2E;
  shared.load_own(0, t.q + at.b * s.q.batch + at.h * s.q.head + at.first * s.q.token, span.queries - at.first,
                  static_cast<int>(s.q.token));
  shared.load_own(1, t.dout + at.b * s.out.batch + at.h * s.out.head + at.first * s.out.token, span.queries - at.first,
                  static_cast<int>(s.out.token));
  const auto others = keys_and_values(shared, t, at);
  float level[2];
  float delta[2];
  make_levels(t, span, at, row, level, delta);
  if (t.dq == nullptr) return;
  Results dq = {};
  const int end = span.keys_for(at.first + 63);
  if (end > 0) others.load(0, 0);
  commit_loads();
  int turn = 0;
  for (int first = 0; first < end; first += kTileRows, turn ^= 1) {
    if (first + kTileRows < end) others.load(first + kTileRows, turn ^ 1);
    await_tile();
    Results p;
    Results dp;
    both_products(p, dp, shared, turn);
    const bool is_whole = at.first + 64 <= span.queries && first + kTileRows <= span.keys &&
                          (!span.causal || first + kTileRows - 1 <= at.first + span.offset);
    // A query that sees no key has a level of minus infinity: only whole tiles of others go without the mask.
    if (is_whole && (!span.causal || at.first + span.offset >= 0)) {
      slopes_by_queries<false>(span, p, dp, level, delta, first, row, scale);
    } else {
      slopes_by_queries<true>(span, p, dp, level, delta, first, row, scale);
    }
    add_weighted(dq, dp, shared.other(turn, 0));
    __syncthreads();
  }
  const float scales[2] = {s.scale, s.scale};
  store_rows(dq, scales, t.dq + at.b * s.q.batch + at.h * s.q.head, row, s.queries, s.q.token);
}

template <class F>
void allow_shared(F kernel, int bytes) {
  NEAP_CHECK_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
}

const char* reason_against_card() {
  int major = 0;
  int minor = 0;
  NEAP_CHECK_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
  NEAP_CHECK_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
  return major == 9 && minor == 0 ? nullptr : "for cards of compute capability 9.0";
}

}  // namespace

Prepared attention_hopper_cuda(const OpCall& call) {
  const AttentionShape shape = attention_shape(call, kForwardInputs);
  if (const char* why = reason_against_bf16(call, kForwardInputs, shape)) return Declined{why};
  if (const char* why = reason_against_card()) return Declined{why};
  allow_shared(forward, Shared<1>::kBytes);
  return cuda_kernel([s = shape, packed = is_packed(call, kForwardInputs)](const Buffers& b, cudaStream_t stream) {
    const dim3 grid = attention_grid(64, s.queries, s.heads, s.batch);
    forward<<<grid, kGroupThreads, Shared<1>::kBytes, stream>>>(forward_tensors(b, s, packed));
    check_launch("attention");
  });
}

Prepared attention_grad_hopper_cuda(const OpCall& call) {
  const AttentionShape shape = attention_shape(call, kBackwardInputs);
  if (const char* why = reason_against_bf16(call, kBackwardInputs, shape)) return Declined{why};
  if (const char* why = reason_against_card()) return Declined{why};
  allow_shared(by_keys, Shared<2>::kBytes);
  allow_shared(by_queries, Shared<2>::kBytes);
  return cuda_kernel(
      [s = shape, packed = is_packed(call, kBackwardInputs)](const Buffers& b, cudaStream_t stream) {
        const AttentionTensors t = backward_tensors(b, s, packed);
        const dim3 queries = attention_grid(64, s.queries, s.heads, s.batch);
        by_queries<<<queries, kGroupThreads, Shared<2>::kBytes, stream>>>(t);
        check_launch("attention_grad");
        if (t.dk == nullptr && t.dv == nullptr) return;
        const dim3 keys = attention_grid(64, s.keys, s.kv_heads, s.batch);
        by_keys<<<keys, kGroupThreads, Shared<2>::kBytes, stream>>>(t);
        check_launch("attention_grad");
      },
      shape.batch * shape.heads * shape.queries * static_cast<std::int64_t>(sizeof(float)));
}

}  // namespace neap::ops
