// Attention in tiles that stay on the chip: forward with a running maximum and sum (Milakov & Gimelshein 2018; Dao et
// al. 2022), backward from the saved logarithm of the sum. Keys' gradients and queries' gradients are kernels of their
// own, each adding up in a fixed order, so there are no atomics.
#include "ops/attention/attention.h"
#include "ops/attention/attention_tile.cuh"
#include "ops/cuda_kernel.h"

namespace neap::ops {
namespace {

struct Inputs {
  AttentionShape s;
  const float *q, *k, *v;
  const void* mask;
  const std::uint64_t* rng;
  std::uint64_t op_key;

  __device__ AttentionPair pair(std::int64_t b, std::int64_t h) const {
    const bool draws = s.drop > 0;
    return {s, mask, draws ? draw_key(rng, op_key) : 0, draws ? rng[2] : 0, b, h};
  }
  __device__ std::int64_t kv_head(std::int64_t h) const { return h / (s.heads / s.kv_heads); }
};

struct Backward {
  Inputs in;
  const float *dout, *out, *lse;
  float* delta;  // [batch, heads, queries]: dout . out
  float *dq, *dk, *dv;
};

__device__ float over_row(float value, bool is_max) {
  for (int step = 8; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(0xffffffffU, value, step);
    value = is_max ? (value > other || value != value ? value : other) : value + other;
  }
  return value;
}

// Scores of a row's keys from `key` on become weights, behind dropout, against the running maximum; total and sums
// shrink with it.
template <class T>
__device__ __forceinline__ void soften(const AttentionPair& pair, std::int64_t row, std::int64_t key,
                                       float (&score)[T::kEach], float& top, float& total, float4 (&sums)[T::kParts]) {
  float highest = -INFINITY;
  for (int j = 0; j < T::kEach; ++j) {
    score[j] = pair.score(score[j], row, key + threadIdx.x + 16 * j);
    highest = score[j] > highest || score[j] != score[j] ? score[j] : highest;
  }
  highest = over_row(highest, true);
  const float now = highest > top || highest != highest ? highest : top;
  const float shrink = now == -INFINITY ? 1 : expf(top - now);
  float sum = 0;
  for (int j = 0; j < T::kEach; ++j) {
    const float weight = score[j] == -INFINITY ? 0 : expf(score[j] - now);
    sum += weight;
    score[j] = weight == 0 ? 0 : weight * pair.keep(row, key + threadIdx.x + 16 * j);
  }
  total = total * shrink + over_row(sum, false);
  top = now;
  for (int k = 0; k < T::kParts; ++k) {
    sums[k].x *= shrink;
    sums[k].y *= shrink;
    sums[k].z *= shrink;
    sums[k].w *= shrink;
  }
}

template <class T>
__global__ void __launch_bounds__(256) forward_kernel(const __grid_constant__ Inputs in, float* out, float* lse) {
  extern __shared__ float4 memory[];
  float* q = reinterpret_cast<float*>(memory);
  float* kv = q + T::kMatrix;
  float* p = kv + T::kMatrix;
  const AttentionShape& s = in.s;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * T::kTile;
  const std::int64_t h = blockIdx.y;
  const std::int64_t b = blockIdx.z;
  const AttentionPair pair = in.pair(b, h);
  const float* keys = in.k + b * s.k.batch + in.kv_head(h) * s.k.head;
  const float* values = in.v + b * s.v.batch + in.kv_head(h) * s.v.head;
  T::load(q, in.q + b * s.q.batch + h * s.q.head, first, s.queries, s.q.token, s.depth);
  float top[T::kEach];
  float total[T::kEach];
  for (int i = 0; i < T::kEach; ++i) {
    top[i] = -INFINITY;
    total[i] = 0;
  }
  typename T::Sums sums;
  T::clear(sums);
  const std::int64_t end = pair.end_for(first + T::kTile - 1);
  for (std::int64_t at = 0; at < end; at += T::kTile) {
    __syncthreads();
    T::load(kv, keys, at, s.keys, s.k.token, s.depth);
    __syncthreads();
    float score[T::kEach][T::kEach];
    T::multiply(q, kv, score);
    for (int i = 0; i < T::kEach; ++i) {
      soften<T>(pair, first + threadIdx.y + 16 * i, at, score[i], top[i], total[i], sums[i]);
    }
    T::put(score, p);
    __syncthreads();
    T::load(kv, values, at, s.keys, s.v.token, s.depth);
    __syncthreads();
    T::template accumulate<false>(p, kv, sums);
  }
  float factor[T::kEach];
  for (int i = 0; i < T::kEach; ++i) {
    factor[i] = total[i] == 0 ? 0 : 1 / total[i];
    const std::int64_t row = first + threadIdx.y + 16 * i;
    if (lse != nullptr && threadIdx.x == 0 && row < s.queries) {
      lse[(b * s.heads + h) * s.queries + row] = total[i] == 0 ? -INFINITY : top[i] + logf(total[i]);
    }
  }
  T::store(sums, factor, out + b * s.out.batch + h * s.out.head, first, s.queries, s.out.token, s.depth);
}

// A warp a query.
__global__ void delta_kernel(const __grid_constant__ Backward w) {
  const AttentionShape& s = w.in.s;
  const std::int64_t number = static_cast<std::int64_t>(blockIdx.x) * 8 + threadIdx.y;
  if (number >= s.batch * s.heads * s.queries) return;
  const std::int64_t i = number % s.queries;
  const std::int64_t h = number / s.queries % s.heads;
  const std::int64_t at = number / s.queries / s.heads * s.out.batch + i * s.out.token + h * s.out.head;
  float sum = 0;
  for (std::int64_t d = threadIdx.x; d < s.depth; d += 32) sum = fmaf(w.dout[at + d], w.out[at + d], sum);
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, step);
  if (threadIdx.x == 0) w.delta[number] = sum;
}

// From scores and dout . v of a tile: `kept`, the weights behind dropout, and `ds`, the scores' gradients.
template <class T>
__device__ void slopes(const Backward& w, const AttentionPair& pair, std::int64_t query, std::int64_t key,
                       float (&kept)[T::kEach][T::kEach], float (&ds)[T::kEach][T::kEach]) {
  const AttentionShape& s = w.in.s;
  for (int i = 0; i < T::kEach; ++i) {
    const std::int64_t row = query + threadIdx.y + 16 * i;
    const std::int64_t number = (pair.b * s.heads + pair.h) * s.queries + row;
    const float level = row < s.queries ? w.lse[number] : -INFINITY;
    const float delta = row < s.queries ? w.delta[number] : 0;
    for (int j = 0; j < T::kEach; ++j) {
      const std::int64_t column = key + threadIdx.x + 16 * j;
      const float score = pair.score(kept[i][j], row, column);
      const bool is_seen = score != -INFINITY && level != -INFINITY;
      const float weight = is_seen ? expf(score - level) : 0;
      const float keep = is_seen ? pair.keep(row, column) : 0;
      kept[i][j] = weight * keep;
      ds[i][j] = is_seen ? weight * (ds[i][j] * keep - delta) * s.scale : 0;
    }
  }
}

// A block a tile of keys: over the heads that share them and all queries.
template <class T>
__global__ void __launch_bounds__(256) keys_kernel(const __grid_constant__ Backward w) {
  extern __shared__ float4 memory[];
  float* k = reinterpret_cast<float*>(memory);
  float* v = k + T::kMatrix;
  float* q = v + T::kMatrix;
  float* g = q + T::kMatrix;
  float* p = g + T::kMatrix;
  const AttentionShape& s = w.in.s;
  const std::int64_t key = static_cast<std::int64_t>(blockIdx.x) * T::kTile;
  const std::int64_t kv = blockIdx.y;
  const std::int64_t b = blockIdx.z;
  T::load(k, w.in.k + b * s.k.batch + kv * s.k.head, key, s.keys, s.k.token, s.depth);
  T::load(v, w.in.v + b * s.v.batch + kv * s.v.head, key, s.keys, s.v.token, s.depth);
  typename T::Sums dk;
  typename T::Sums dv;
  T::clear(dk);
  T::clear(dv);
  const std::int64_t group = s.heads / s.kv_heads;
  const std::int64_t seen_from = s.causal && key - s.offset > 0 ? (key - s.offset) / T::kTile * T::kTile : 0;
  for (std::int64_t h = kv * group; h < (kv + 1) * group; ++h) {
    const AttentionPair pair = w.in.pair(b, h);
    for (std::int64_t at = seen_from; at < s.queries; at += T::kTile) {
      __syncthreads();
      T::load(q, w.in.q + b * s.q.batch + h * s.q.head, at, s.queries, s.q.token, s.depth);
      T::load(g, w.dout + b * s.out.batch + h * s.out.head, at, s.queries, s.out.token, s.depth);
      __syncthreads();
      float kept[T::kEach][T::kEach];
      float ds[T::kEach][T::kEach];
      T::multiply(q, k, kept);
      T::multiply(g, v, ds);
      slopes<T>(w, pair, at, key, kept, ds);
      T::put(kept, p);
      __syncthreads();
      T::template accumulate<true>(p, g, dv);
      __syncthreads();
      T::put(ds, p);
      __syncthreads();
      T::template accumulate<true>(p, q, dk);
    }
  }
  float one[T::kEach];
  for (float& f : one) f = 1;
  if (w.dk != nullptr) T::store(dk, one, w.dk + b * s.k.batch + kv * s.k.head, key, s.keys, s.k.token, s.depth);
  if (w.dv != nullptr) T::store(dv, one, w.dv + b * s.v.batch + kv * s.v.head, key, s.keys, s.v.token, s.depth);
}

// A block a tile of queries, over all keys that they see.
template <class T>
__global__ void __launch_bounds__(256) queries_kernel(const __grid_constant__ Backward w) {
  extern __shared__ float4 memory[];
  float* q = reinterpret_cast<float*>(memory);
  float* g = q + T::kMatrix;
  float* k = g + T::kMatrix;
  float* v = k + T::kMatrix;
  float* p = v + T::kMatrix;
  const AttentionShape& s = w.in.s;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * T::kTile;
  const std::int64_t h = blockIdx.y;
  const std::int64_t b = blockIdx.z;
  const std::int64_t kv = w.in.kv_head(h);
  const AttentionPair pair = w.in.pair(b, h);
  T::load(q, w.in.q + b * s.q.batch + h * s.q.head, first, s.queries, s.q.token, s.depth);
  T::load(g, w.dout + b * s.out.batch + h * s.out.head, first, s.queries, s.out.token, s.depth);
  typename T::Sums dq;
  T::clear(dq);
  const std::int64_t end = pair.end_for(first + T::kTile - 1);
  for (std::int64_t at = 0; at < end; at += T::kTile) {
    __syncthreads();
    T::load(k, w.in.k + b * s.k.batch + kv * s.k.head, at, s.keys, s.k.token, s.depth);
    T::load(v, w.in.v + b * s.v.batch + kv * s.v.head, at, s.keys, s.v.token, s.depth);
    __syncthreads();
    float kept[T::kEach][T::kEach];
    float ds[T::kEach][T::kEach];
    T::multiply(q, k, kept);
    T::multiply(g, v, ds);
    slopes<T>(w, pair, first, at, kept, ds);
    T::put(ds, p);
    __syncthreads();
    T::template accumulate<false>(p, k, dq);
  }
  float one[T::kEach];
  for (float& f : one) f = 1;
  T::store(dq, one, w.dq + b * s.q.batch + h * s.q.head, first, s.queries, s.q.token, s.depth);
}

using Shallow = AttentionTile<64, 64>;
using Deep = AttentionTile<128, 32>;
using Deeper = AttentionTile<256, 16>;
using Deepest = AttentionTile<512, 16>;  // 130 KiB of shared memory backward

template <class Kernel>
void allow_shared(Kernel kernel, int bytes) {
  NEAP_CHECK_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
}

template <class T>
dim3 grid_of(std::int64_t rows, std::int64_t heads, std::int64_t batch) {
  return {static_cast<unsigned>((rows + T::kTile - 1) / T::kTile), static_cast<unsigned>(heads),
          static_cast<unsigned>(batch)};
}

bool is_empty(const AttentionShape& s) { return s.batch == 0 || s.heads == 0 || s.queries == 0 || s.depth == 0; }

template <class T>
void run_forward(const Inputs& in, float* out, float* lse, cudaStream_t stream) {
  constexpr int kBytes = (2 * T::kMatrix + T::kScores) * static_cast<int>(sizeof(float));
  static const bool is_allowed = (allow_shared(forward_kernel<T>, kBytes), true);
  (void)is_allowed;
  forward_kernel<T><<<grid_of<T>(in.s.queries, in.s.heads, in.s.batch), dim3(16, 16), kBytes, stream>>>(in, out, lse);
  check_launch("attention");
}

template <class T>
constexpr int kBackwardBytes = (4 * T::kMatrix + T::kScores) * static_cast<int>(sizeof(float));

// Those of compute capability 8.6 and 8.9 have 99 KiB.
bool card_has_shared(int bytes) {
  int most = 0;
  NEAP_CHECK_CUDA(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
  return bytes <= most;
}

template <class T>
void run_backward(const Backward& w, cudaStream_t stream) {
  constexpr int kBytes = kBackwardBytes<T>;
  static const bool is_allowed = (allow_shared(keys_kernel<T>, kBytes), allow_shared(queries_kernel<T>, kBytes), true);
  (void)is_allowed;
  const AttentionShape& s = w.in.s;
  const std::int64_t rows = s.batch * s.heads * s.queries;
  delta_kernel<<<static_cast<unsigned>((rows + 7) / 8), dim3(32, 8), 0, stream>>>(w);
  check_launch("attention_grad");
  if ((w.dk != nullptr || w.dv != nullptr) && s.keys > 0) {
    keys_kernel<T><<<grid_of<T>(s.keys, s.kv_heads, s.batch), dim3(16, 16), kBytes, stream>>>(w);
    check_launch("attention_grad");
  }
  if (w.dq == nullptr) return;
  queries_kernel<T><<<grid_of<T>(s.queries, s.heads, s.batch), dim3(16, 16), kBytes, stream>>>(w);
  check_launch("attention_grad");
}

// By the smallest tile that holds the depth.
void run_forward_of(const Inputs& in, float* out, float* lse, cudaStream_t stream) {
  if (in.s.depth <= Shallow::kDepth) return run_forward<Shallow>(in, out, lse, stream);
  if (in.s.depth <= Deep::kDepth) return run_forward<Deep>(in, out, lse, stream);
  if (in.s.depth <= Deeper::kDepth) return run_forward<Deeper>(in, out, lse, stream);
  run_forward<Deepest>(in, out, lse, stream);
}

void run_backward_of(const Backward& w, cudaStream_t stream) {
  if (w.in.s.depth <= Shallow::kDepth) return run_backward<Shallow>(w, stream);
  if (w.in.s.depth <= Deep::kDepth) return run_backward<Deep>(w, stream);
  if (w.in.s.depth <= Deeper::kDepth) return run_backward<Deeper>(w, stream);
  run_backward<Deepest>(w, stream);
}

}  // namespace

Prepared attention_cuda(const OpCall& call) {
  const AttentionShape shape = attention_shape(call, kForwardInputs);
  if (shape.depth > Deepest::kDepth) return Declined{"heads deeper than 512"};
  return cuda_kernel([s = shape, packed = is_packed(call, kForwardInputs), key = call.attrs.integer("key", 0)](
                         const Buffers& b, cudaStream_t stream) {
    if (is_empty(s)) return;
    const auto heads = heads_of(b.in<float>(0), b.in<float>(1), b.in<float>(2), packed, s);
    const Inputs in{
        s, heads.q, heads.k, heads.v, b.in<void>(3), b.in<std::uint64_t>(4), static_cast<std::uint64_t>(key)};
    run_forward_of(in, b.out<float>(0), b.out<float>(1), stream);
  });
}

Prepared attention_grad_cuda(const OpCall& call) {
  const AttentionShape shape = attention_shape(call, kBackwardInputs);
  if (shape.depth > Deepest::kDepth) return Declined{"heads deeper than 512"};
  if (shape.depth > Deeper::kDepth && !card_has_shared(kBackwardBytes<Deepest>)) {
    return Declined{"heads deeper than 256, and the card has too little shared memory"};
  }
  const auto run = [s = shape, packed = is_packed(call, kBackwardInputs), key = call.attrs.integer("key", 0)](
                       const Buffers& b, cudaStream_t stream) {
    if (is_empty(s)) return;
    const auto heads = heads_of(b.in<float>(1), b.in<float>(2), b.in<float>(3), packed, s);
    const auto grads = packed ? heads_of<float>(b.out<float>(0), nullptr, nullptr, true, s)
                              : heads_of(b.out<float>(0), b.out<float>(1), b.out<float>(2), false, s);
    const Backward w{
        .in = {s, heads.q, heads.k, heads.v, b.in<void>(6), b.in<std::uint64_t>(7), static_cast<std::uint64_t>(key)},
        .dout = b.in<float>(0),
        .out = b.in<float>(4),
        .lse = b.in<float>(5),
        .delta = reinterpret_cast<float*>(b.workspace),
        .dq = grads.q,
        .dk = grads.k,
        .dv = grads.v};
    run_backward_of(w, stream);
  };
  return cuda_kernel(run, shape.batch * shape.heads * shape.queries * static_cast<std::int64_t>(sizeof(float)));
}

}  // namespace neap::ops
