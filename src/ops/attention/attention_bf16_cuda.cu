// Attention of bf16 on tensor cores, heads of 64 numbers, without mask and dropout: tiles and running sums as in
// attention_cuda.cu. A warp has 16 rows, a block some warps. Backward is two kernels, one by keys and one by queries:
// each result is added up by one warp in order, so the bits do not depend on timing.
#include "device/cuda/launch.cuh"
#include "ops/attention/attention.h"
#include "ops/attention/attention_mma.cuh"
#include "ops/cuda_kernel.h"

namespace neap::ops {
namespace {

constexpr float kLog2E = 1.4426950408889634F;

struct Tensors {
  AttentionShape s;
  const Bf16 *q, *k, *v;
  const Bf16 *dout, *out;
  float *lse, *delta;  // [batch, heads, queries]
  Bf16 *y, *dq, *dk, *dv;
};

// Where a block works; causal blocks with the most to do come first.
struct Spot {
  std::int64_t b, h, kv, first, line;

  __device__ Spot(const AttentionShape& s, int rows, bool is_last_first) {
    b = blockIdx.z;
    h = blockIdx.y;
    kv = h / (s.heads / s.kv_heads);
    first = static_cast<std::int64_t>(is_last_first ? gridDim.x - 1 - blockIdx.x : blockIdx.x) * rows;
    line = (b * s.heads + h) * s.queries;
  }
};

__device__ bool is_seen(const AttentionShape& s, std::int64_t query, std::int64_t key) {
  return key < s.keys && (!s.causal || key <= query + s.offset);
}

__device__ std::int64_t keys_for(const AttentionShape& s, std::int64_t last_query) {
  if (!s.causal) return s.keys;
  const std::int64_t end = last_query + s.offset + 1;
  return end < 0 ? 0 : end < s.keys ? end : s.keys;
}

__device__ float row_max(float v) {
  v = fmaxf(v, __shfl_xor_sync(0xffffffffU, v, 1));
  return fmaxf(v, __shfl_xor_sync(0xffffffffU, v, 2));
}
__device__ float row_sum(float v) {
  v += __shfl_xor_sync(0xffffffffU, v, 1);
  return v + __shfl_xor_sync(0xffffffffU, v, 2);
}

// W warps a block, in all three.
template <int W>
__global__ void __launch_bounds__(32 * W, 16 / W) forward_kernel(const __grid_constant__ Tensors t) {
  __shared__ __align__(128) std::byte memory[4 * kTileBytes];
  const AttentionShape& s = t.s;
  const Spot at(s, 16 * W, true);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t row = at.first + static_cast<int>(threadIdx.x) / 32 * 16;  // of the warp
  const std::uint32_t tiles = shared_address(memory);
  const Bf16* keys = t.k + at.b * s.k.batch + at.kv * s.k.head;
  const Bf16* values = t.v + at.b * s.v.batch + at.kv * s.v.head;
  Four q[4];
  load_rows(q, t.q + at.b * s.q.batch + at.h * s.q.head, row, s.queries, s.q.token);
  float sums[8][4] = {};
  float top[2] = {-INFINITY, -INFINITY};
  float total[2] = {0, 0};
  const float scale = s.scale * kLog2E;
  const std::int64_t end = keys_for(s, at.first + 16 * W - 1);
  const std::int64_t warp_end = keys_for(s, row + 15);
  if (end > 0) {
    load_tile(tiles, keys, 0, s.keys, s.k.token);
    load_tile(tiles + kTileBytes, values, 0, s.keys, s.v.token);
  }
  commit_loads();
  int turn = 0;
  for (std::int64_t first = 0; first < end; first += kTileRows, turn ^= 1) {
    const std::uint32_t next = tiles + static_cast<std::uint32_t>((turn ^ 1) * 2 * kTileBytes);
    if (first + kTileRows < end) {
      load_tile(next, keys, first + kTileRows, s.keys, s.k.token);
      load_tile(next + kTileBytes, values, first + kTileRows, s.keys, s.v.token);
    }
    commit_loads();
    wait_for_loads<1>();
    __syncthreads();
    if (first < warp_end) {
      const std::uint32_t k_tile = tiles + static_cast<std::uint32_t>(turn * 2 * kTileBytes);
      const std::uint32_t v_tile = k_tile + kTileBytes;
      float score[8][4] = {};
#pragma unroll
      for (int n = 0; n < 4; ++n) {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          const Four b = rows_as_columns(k_tile, 16 * n, k);
          multiply(score[2 * n], q[k], b.r[0], b.r[1]);
          multiply(score[2 * n + 1], q[k], b.r[2], b.r[3]);
        }
      }
      const bool is_whole = first + kTileRows <= s.keys && (!s.causal || first + kTileRows - 1 <= row + s.offset);
      if (!is_whole) {
#pragma unroll
        for (int n = 0; n < 8; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const std::int64_t query = row + lane / 4 + 8 * (i / 2);
            if (!is_seen(s, query, first + 8 * n + lane % 4 * 2 + i % 2)) score[n][i] = -INFINITY;
          }
        }
      }
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
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const Four p = as_operand(score[2 * k], score[2 * k + 1]);
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          const Four b = rows_as_terms(v_tile, 16 * k, n);
          multiply(sums[2 * n], p, b.r[0], b.r[1]);
          multiply(sums[2 * n + 1], p, b.r[2], b.r[3]);
        }
      }
    }
    __syncthreads();
  }
  float factor[2];
  for (int half = 0; half < 2; ++half) {
    const float all = row_sum(total[half]);
    factor[half] = all == 0 ? 0 : 1 / all;
    const std::int64_t query = row + lane / 4 + 8 * half;
    if (t.lse != nullptr && lane % 4 == 0 && query < s.queries) {
      t.lse[at.line + query] = all == 0 ? -INFINITY : fmaf(top[half], s.scale, logf(all));
    }
  }
  store_rows(sums, factor, t.y + at.b * s.out.batch + at.h * s.out.head, row, s.queries, s.out.token);
}

// delta = dout . out, 8 lanes a query and head.
__global__ void delta_kernel(const __grid_constant__ Tensors t) {
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
__device__ void two_products(float (&first)[2][4], float (&second)[2][4], const Four (&a)[4], const Four (&b)[4],
                             std::uint32_t a_tile, std::uint32_t b_tile, int column) {
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const Four x = rows_as_columns(a_tile, column, k);
    multiply(first[0], a[k], x.r[0], x.r[1]);
    multiply(first[1], a[k], x.r[2], x.r[3]);
    const Four y = rows_as_columns(b_tile, column, k);
    multiply(second[0], b[k], y.r[0], y.r[1]);
    multiply(second[1], b[k], y.r[2], y.r[3]);
  }
}

__device__ void add_product(float (&sums)[8][4], const Four& a, std::uint32_t tile, int row) {
#pragma unroll
  for (int n = 0; n < 4; ++n) {
    const Four b = rows_as_terms(tile, row, n);
    multiply(sums[2 * n], a, b.r[0], b.r[1]);
    multiply(sums[2 * n + 1], a, b.r[2], b.r[3]);
  }
}

// dk and dv: a block has some keys of one head of k, and goes through the queries of every head that uses them.
template <int W>
__global__ void __launch_bounds__(32 * W, W == 4 ? 3 : 1) keys_kernel(const __grid_constant__ Tensors t) {
  __shared__ __align__(128) std::byte memory[4 * kTileBytes];
  __shared__ float lines[2][2][kTileRows];
  const AttentionShape& s = t.s;
  const std::int64_t b = blockIdx.z;
  const std::int64_t kv = blockIdx.y;
  const std::int64_t block = static_cast<std::int64_t>(blockIdx.x) * (16 * W);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t row = block + static_cast<int>(threadIdx.x) / 32 * 16;
  const std::uint32_t tiles = shared_address(memory);
  const float scale = s.scale * kLog2E;
  Four k[4];
  Four v[4];
  load_rows(k, t.k + b * s.k.batch + kv * s.k.head, row, s.keys, s.k.token);
  load_rows(v, t.v + b * s.v.batch + kv * s.v.head, row, s.keys, s.v.token);
  float dk[8][4] = {};
  float dv[8][4] = {};
  const std::int64_t group = s.heads / s.kv_heads;
  const std::int64_t seen = s.causal && block > s.offset ? block - s.offset : 0;  // by the first query
  const std::int64_t start = seen / kTileRows * kTileRows;
  const std::int64_t a_head = start < s.queries ? (s.queries - start + kTileRows - 1) / kTileRows : 0;
  const auto load = [&](std::int64_t number, int turn) {
    if (number >= a_head * group) return;
    const std::int64_t h = kv * group + number / a_head;
    const std::int64_t first = start + number % a_head * kTileRows;
    const std::uint32_t tile = tiles + static_cast<std::uint32_t>(turn * 2 * kTileBytes);
    load_tile(tile, t.q + b * s.q.batch + h * s.q.head, first, s.queries, s.q.token);
    load_tile(tile + kTileBytes, t.dout + b * s.out.batch + h * s.out.head, first, s.queries, s.out.token);
    if (threadIdx.x < kTileRows) {
      const std::int64_t query = first + threadIdx.x;
      const std::int64_t at = (b * s.heads + h) * s.queries + query;
      lines[turn][0][threadIdx.x] = query < s.queries ? t.lse[at] * kLog2E : INFINITY;
      lines[turn][1][threadIdx.x] = query < s.queries ? t.delta[at] : 0;
    }
  };
  load(0, 0);
  commit_loads();
  int turn = 0;
  for (std::int64_t number = 0; number < a_head * group; ++number, turn ^= 1) {
    load(number + 1, turn ^ 1);
    commit_loads();
    wait_for_loads<1>();
    __syncthreads();
    const std::int64_t first = start + number % a_head * kTileRows;
    const std::uint32_t q_tile = tiles + static_cast<std::uint32_t>(turn * 2 * kTileBytes);
    const std::uint32_t d_tile = q_tile + kTileBytes;
    const bool is_whole =
        first + kTileRows <= s.queries && row + 16 <= s.keys && (!s.causal || row + 15 <= first + s.offset);
#pragma unroll
    for (int part = 0; part < 4; ++part) {
      if (s.causal && row > first + 16 * part + 15 + s.offset) continue;  // none of these queries sees these keys
      float p[2][4] = {};
      float dp[2][4] = {};
      two_products(p, dp, k, v, q_tile, d_tile, 16 * part);
#pragma unroll
      for (int n = 0; n < 2; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int column = 16 * part + 8 * n + lane % 4 * 2 + i % 2;
          const float level = lines[turn][0][column];
          float weight = exp2_of(fmaf(p[n][i], scale, -level));
          if (!is_whole && (level == -INFINITY || first + column >= s.queries ||
                            !is_seen(s, first + column, row + lane / 4 + 8 * (i / 2)))) {
            weight = 0;
          }
          p[n][i] = weight;
          dp[n][i] = weight * (dp[n][i] - lines[turn][1][column]);
        }
      }
      add_product(dv, as_operand(p[0], p[1]), d_tile, 16 * part);
      add_product(dk, as_operand(dp[0], dp[1]), q_tile, 16 * part);
    }
    __syncthreads();
  }
  const float one[2] = {1, 1};
  const float scales[2] = {s.scale, s.scale};
  if (t.dv != nullptr) store_rows(dv, one, t.dv + b * s.v.batch + kv * s.v.head, row, s.keys, s.v.token);
  if (t.dk != nullptr) store_rows(dk, scales, t.dk + b * s.k.batch + kv * s.k.head, row, s.keys, s.k.token);
}

template <int W>
__global__ void __launch_bounds__(32 * W, 16 / W) queries_kernel(const __grid_constant__ Tensors t) {
  __shared__ __align__(128) std::byte memory[4 * kTileBytes];
  const AttentionShape& s = t.s;
  const Spot at(s, 16 * W, true);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t row = at.first + static_cast<int>(threadIdx.x) / 32 * 16;
  const std::uint32_t tiles = shared_address(memory);
  const float scale = s.scale * kLog2E;
  const Bf16* keys = t.k + at.b * s.k.batch + at.kv * s.k.head;
  const Bf16* values = t.v + at.b * s.v.batch + at.kv * s.v.head;
  Four q[4];
  Four d[4];
  load_rows(q, t.q + at.b * s.q.batch + at.h * s.q.head, row, s.queries, s.q.token);
  load_rows(d, t.dout + at.b * s.out.batch + at.h * s.out.head, row, s.queries, s.out.token);
  float level[2];
  float delta[2];
  for (int half = 0; half < 2; ++half) {
    const std::int64_t query = row + lane / 4 + 8 * half;
    level[half] = query < s.queries ? t.lse[at.line + query] * kLog2E : INFINITY;
    delta[half] = query < s.queries ? t.delta[at.line + query] : 0;
  }
  const bool has_blind = level[0] == -INFINITY || level[1] == -INFINITY;
  float dq[8][4] = {};
  const std::int64_t end = keys_for(s, at.first + 16 * W - 1);
  if (end > 0) {
    load_tile(tiles, keys, 0, s.keys, s.k.token);
    load_tile(tiles + kTileBytes, values, 0, s.keys, s.v.token);
  }
  commit_loads();
  int turn = 0;
  for (std::int64_t first = 0; first < end; first += kTileRows, turn ^= 1) {
    const std::uint32_t next = tiles + static_cast<std::uint32_t>((turn ^ 1) * 2 * kTileBytes);
    if (first + kTileRows < end) {
      load_tile(next, keys, first + kTileRows, s.keys, s.k.token);
      load_tile(next + kTileBytes, values, first + kTileRows, s.keys, s.v.token);
    }
    commit_loads();
    wait_for_loads<1>();
    __syncthreads();
    const std::uint32_t k_tile = tiles + static_cast<std::uint32_t>(turn * 2 * kTileBytes);
    const std::uint32_t v_tile = k_tile + kTileBytes;
    const bool is_whole =
        !has_blind && first + kTileRows <= s.keys && (!s.causal || first + kTileRows - 1 <= row + s.offset);
#pragma unroll
    for (int part = 0; part < 4; ++part) {
      if (s.causal && first + 16 * part > row + 15 + s.offset) continue;  // none of these keys is seen
      float p[2][4] = {};
      float dp[2][4] = {};
      two_products(p, dp, q, d, k_tile, v_tile, 16 * part);
#pragma unroll
      for (int n = 0; n < 2; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int half = i / 2;
          float weight = exp2_of(fmaf(p[n][i], scale, -level[half]));
          const std::int64_t key = first + 16 * part + 8 * n + lane % 4 * 2 + i % 2;
          if (!is_whole && (level[half] == -INFINITY || !is_seen(s, row + lane / 4 + 8 * half, key))) weight = 0;
          dp[n][i] = weight * (dp[n][i] - delta[half]);
        }
      }
      add_product(dq, as_operand(dp[0], dp[1]), k_tile, 16 * part);
    }
    __syncthreads();
  }
  const float scales[2] = {s.scale, s.scale};
  store_rows(dq, scales, t.dq + at.b * s.q.batch + at.h * s.q.head, row, s.queries, s.q.token);
}

dim3 grid_of(int warps, std::int64_t rows, std::int64_t heads, std::int64_t batch) {
  return {static_cast<unsigned>((rows + 16 * warps - 1) / (16 * warps)), static_cast<unsigned>(heads),
          static_cast<unsigned>(batch)};
}

// Why these kernels cannot do it.
const char* reason_against(const OpCall& call, const AttentionInputs& in, const AttentionShape& s) {
  for (std::size_t i = in.q; i < in.q + 3; ++i) {
    if (call.has(i) && call.in(i).dtype != DType::kBF16) return "bf16 only";
  }
  if (call.outputs[0].dtype != DType::kBF16) return "bf16 only";
  if (s.depth != kDepth || s.mask != MaskKind::kNone || s.drop > 0) return "heads of 64 without mask and dropout only";
  if (s.batch * s.heads * s.queries * s.keys == 0) return "nothing to attend to";
  return s.heads < 65536 && s.batch < 65536 ? nullptr : "too many heads";
}

}  // namespace

Prepared attention_bf16_cuda(const OpCall& call) {
  const AttentionShape shape = attention_shape(call, kForwardInputs);
  if (const char* why = reason_against(call, kForwardInputs, shape)) return Declined{why};
  return cuda_kernel([s = shape, packed = is_packed(call, kForwardInputs)](const Buffers& b, cudaStream_t stream) {
    const auto in = heads_of(b.in<Bf16>(0), b.in<Bf16>(1), b.in<Bf16>(2), packed, s);
    const Tensors t{.s = s, .q = in.q, .k = in.k, .v = in.v, .lse = b.out<float>(1), .y = b.out<Bf16>(0)};
    forward_kernel<8><<<grid_of(8, s.queries, s.heads, s.batch), 256, 0, stream>>>(t);
    check_launch("attention");
  });
}

Prepared attention_grad_bf16_cuda(const OpCall& call) {
  const AttentionShape shape = attention_shape(call, kBackwardInputs);
  if (const char* why = reason_against(call, kBackwardInputs, shape)) return Declined{why};
  if (call.in(0).dtype != DType::kBF16 || call.in(4).dtype != DType::kBF16) return Declined{"bf16 only"};
  const std::int64_t lines = shape.batch * shape.heads * shape.queries;
  return cuda_kernel(
      [s = shape, lines, packed = is_packed(call, kBackwardInputs)](const Buffers& b, cudaStream_t stream) {
        const auto in = heads_of(b.in<Bf16>(1), b.in<Bf16>(2), b.in<Bf16>(3), packed, s);
        const auto out = packed ? heads_of<Bf16>(b.out<Bf16>(0), nullptr, nullptr, true, s)
                                : heads_of(b.out<Bf16>(0), b.out<Bf16>(1), b.out<Bf16>(2), false, s);
        const Tensors t{.s = s,
                        .q = in.q,
                        .k = in.k,
                        .v = in.v,
                        .dout = b.in<Bf16>(0),
                        .out = b.in<Bf16>(4),
                        .lse = const_cast<float*>(b.in<float>(5)),
                        .delta = reinterpret_cast<float*>(b.workspace),
                        .dq = out.q,
                        .dk = out.k,
                        .dv = out.v};
        delta_kernel<<<static_cast<unsigned>((lines * 8 + kThreads - 1) / kThreads), kThreads, 0, stream>>>(t);
        check_launch("attention_grad");
        if (t.dk != nullptr || t.dv != nullptr) {
          keys_kernel<4><<<grid_of(4, s.keys, s.kv_heads, s.batch), 128, 0, stream>>>(t);
          check_launch("attention_grad");
        }
        if (t.dq == nullptr) return;
        queries_kernel<4><<<grid_of(4, s.queries, s.heads, s.batch), 128, 0, stream>>>(t);
        check_launch("attention_grad");
      },
      lines * static_cast<std::int64_t>(sizeof(float)));
}

}  // namespace neap::ops
