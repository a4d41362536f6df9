// All steps of an LSTM's chunk in one launch, bf16: each block keeps its slice of the state's weights in shared memory,
// and the blocks meet once a step, when the state (backward: the gradients of the sums) is complete in the second-level
// cache. Sums are made in parts of the terms, added up in order: no bit depends on timing.
//
// Forward, a block has 8 units with their 4 gates: 32 rows of w_hh. Backward, four blocks (a cluster) have 32 units,
// and each of them the terms of one gate: 32 columns of `hidden` rows of w_hh; their parts meet in shared memory.
#pragma once

#include <cooperative_groups.h>

#include "ops/attention/attention_mma.cuh"
#include "ops/rnn/chunk_cell.cuh"

namespace neap::ops {

inline constexpr int kSteadyThreads = 512;  // 16 warps: 4 times 16 rows of the batch, by 4 parts of the terms
inline constexpr int kSteadyRows = 64;      // of the batch, at most
inline constexpr int kSlice = 32;           // rows of weights that a block keeps
inline constexpr int kParts = 4;
inline constexpr int kPartRow = kSlice + 8;  // floats: so that rows begin in different banks
inline constexpr int kPartFloats = kSteadyRows * kPartRow;

// A row of the slice: 64 bytes more than its numbers, for the same reason.
__host__ __device__ constexpr int slice_row(int hidden) { return hidden + 32; }
constexpr std::size_t steady_shared_bytes(int hidden) {
  return static_cast<std::size_t>(kSlice * slice_row(hidden)) * sizeof(Bf16) +
         static_cast<std::size_t>(kParts + 1) * kPartFloats * sizeof(float);
}

// Blocks that have all begun meet: everything written before is seen by all afterwards. One thread of a block calls.
__device__ inline void arrive(unsigned* counter) {
  __threadfence();
  atomicAdd(counter, 1U);
}
__device__ inline void wait_until(const unsigned* counter, unsigned count) {
  unsigned seen = 0;
  do {
    asm volatile("ld.acquire.gpu.u32 %0, [%1];\n" : "=r"(seen) : "l"(counter) : "memory");
  } while (seen < count);
}

// The warp's 16 rows, its quarter of the terms: a thread has 8 neighbours of two rows a 32 terms. Which of them are
// called term 0, 1, .. of a product does not matter, as long as the weights are taken in the same way.
template <int S>
struct RowTerms {
  uint4 low[S], high[S];

  // From the second-level cache: other multiprocessors have just written them.
  __device__ void load(const Bf16* from, std::int64_t step, int rows) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int row = warp % 4 * 16 + lane / 4;
    const Bf16* at = from + row * step + warp / 4 * 32 * S + lane % 4 * 8;
#pragma unroll
    for (int s = 0; s < S; ++s) {
      low[s] = row < rows ? __ldcg(reinterpret_cast<const uint4*>(at + 32 * s)) : uint4{};
      high[s] = row + 8 < rows ? __ldcg(reinterpret_cast<const uint4*>(at + 8 * step + 32 * s)) : uint4{};
    }
  }

  // Times the slice's rows; the result goes to this quarter's part.
  __device__ void multiply_into(float* parts, const Bf16* slice) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const Bf16* at = slice + lane / 4 * slice_row(128 * S) + warp / 4 * 32 * S + lane % 4 * 8;
    float sums[4][4] = {};
#pragma unroll
    for (int s = 0; s < S; ++s) {
      const Four first{{low[s].x, high[s].x, low[s].y, high[s].y}};
      const Four second{{low[s].z, high[s].z, low[s].w, high[s].w}};
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const uint4 b = *reinterpret_cast<const uint4*>(at + 8 * n * slice_row(128 * S) + 32 * s);
        multiply(sums[n], first, b.x, b.y);
        multiply(sums[n], second, b.z, b.w);
      }
    }
    float* to = parts + warp / 4 * kPartFloats + (warp % 4 * 16 + lane / 4) * kPartRow + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      *reinterpret_cast<float2*>(to + 8 * n) = {sums[n][0], sums[n][1]};
      *reinterpret_cast<float2*>(to + 8 * kPartRow + 8 * n) = {sums[n][2], sums[n][3]};
    }
  }
};

__device__ inline float sum_of_parts(const float* parts, int row, int column) {
  const float* at = parts + row * kPartRow + column;
  return at[0] + at[kPartFloats] + at[2 * kPartFloats] + at[3 * kPartFloats];
}

struct SteadyForward {
  int batch, steps;
  bool reverse, has_state;
  const Bf16* w_hh;
  const float *b_ih, *b_hh, *c0;
  const float* by_input;  // [steps, batch, 4 * hidden], without biases
  float *gates, *h, *c;   // gates may take the place of by_input; gates and c may be null
  float *h_last, *c_last;
  Bf16* states;  // [2, batch, hidden]: the first is the state that came in
  unsigned* met;
};

template <int S>
__global__ void __launch_bounds__(kSteadyThreads, 1) lstm_kernel(const __grid_constant__ SteadyForward t) {
  constexpr int kHidden = 128 * S;
  extern __shared__ __align__(16) unsigned char memory[];
  Bf16* slice = reinterpret_cast<Bf16*>(memory);
  float* parts = reinterpret_cast<float*>(slice + kSlice * slice_row(kHidden));
  const int thread = static_cast<int>(threadIdx.x);
  const int first = static_cast<int>(blockIdx.x) * 8;
  for (int i = thread; i < kSlice * kHidden / 8; i += kSteadyThreads) {
    const int n = i / (kHidden / 8);
    const int k = i % (kHidden / 8) * 8;
    *reinterpret_cast<uint4*>(slice + n * slice_row(kHidden) + k) = *reinterpret_cast<const uint4*>(
        t.w_hh + static_cast<std::int64_t>(n / 8 * kHidden + first + n % 8) * kHidden + k);
  }
  const int row = thread / 8;
  const int unit = first + thread % 8;
  const bool is_there = row < t.batch;
  const int e = row * kHidden + unit;
  const std::int64_t plane = static_cast<std::int64_t>(t.batch) * kHidden;
  float bias[4];
  for (int g = 0; g < 4; ++g) bias[g] = at_or_zero(t.b_ih, g * kHidden + unit) + at_or_zero(t.b_hh, g * kHidden + unit);
  float cell = is_there ? at_or_zero(t.c0, e) : 0;
  __syncthreads();
  for (int i = 0; i < t.steps; ++i) {
    const std::int64_t time = t.reverse ? t.steps - 1 - i : i;
    const std::int64_t sums_at = 4 * time * plane + row * 4 * kHidden + unit;
    RowTerms<S> terms;
    const bool has_state = i > 0 || t.has_state;
    if (has_state) terms.load(t.states + i % 2 * plane, kHidden, t.batch);
    float sum[4];
    for (int g = 0; g < 4; ++g) sum[g] = is_there ? t.by_input[sums_at + g * kHidden] : 0;
    if (has_state) {
      terms.multiply_into(parts, slice);
      __syncthreads();
      for (int g = 0; g < 4; ++g) sum[g] += sum_of_parts(parts, row, 8 * g + thread % 8);
    }
    const float in = cell_sigmoid(sum[0] + bias[0]);
    const float forget = cell_sigmoid(sum[1] + bias[1]);
    const float value = tanhf(sum[2] + bias[2]);
    const float out = cell_sigmoid(sum[3] + bias[3]);
    cell = fmaf(forget, cell, in * value);
    const float h = out * tanhf(cell);
    if (is_there) t.states[(i + 1) % 2 * plane + e] = narrow<Bf16>(h);
    __syncthreads();
    const bool is_last = i + 1 == t.steps;
    if (!is_last && thread == 0) arrive(t.met);
    if (is_there) {
      if (t.gates != nullptr) {
        t.gates[sums_at] = in;
        t.gates[sums_at + kHidden] = forget;
        t.gates[sums_at + 2 * kHidden] = value;
        t.gates[sums_at + 3 * kHidden] = out;
      }
      if (t.c != nullptr) t.c[time * plane + e] = cell;
      t.h[time * plane + e] = h;
      if (is_last && t.h_last != nullptr) t.h_last[e] = h;
      if (is_last && t.c_last != nullptr) t.c_last[e] = cell;
    }
    if (is_last) break;
    if (thread == 0) wait_until(t.met, static_cast<unsigned>(i + 1) * gridDim.x);
    __syncthreads();
  }
}

struct SteadyBackward {
  int batch, steps;
  bool reverse;
  const Bf16* w_hh;
  const float* dh;
  const Bf16* narrow_dh;  // instead of dh
  const float *dh_last, *dc_last;
  const float *gates, *c, *c0;
  Bf16* slopes;  // [steps, batch, 4 * hidden]: the gradients of the sums
  float *dh0, *dc0;
  unsigned* met;
};

// What one unit of one row reads in a step of backward.
struct UnitBefore {
  float gates[4], c, c_prev, dh;
};

template <int kHidden>
__device__ UnitBefore unit_before(const SteadyBackward& t, int i, int e, int row, int unit, bool is_there) {
  if (!is_there) return {};
  const std::int64_t plane = static_cast<std::int64_t>(t.batch) * kHidden;
  const std::int64_t time = t.reverse ? t.steps - 1 - i : i;
  const std::int64_t before = t.reverse ? time + 1 : time - 1;
  UnitBefore u;
  for (int g = 0; g < 4; ++g) u.gates[g] = t.gates[4 * time * plane + row * 4 * kHidden + g * kHidden + unit];
  u.c = t.c[time * plane + e];
  u.c_prev = i > 0 ? t.c[before * plane + e] : at_or_zero(t.c0, e);
  u.dh = t.narrow_dh != nullptr ? widen(t.narrow_dh[time * plane + e]) : at_or_zero(t.dh, time * plane + e);
  return u;
}

// By all blocks of the cluster: what this thread's unit gets from the step behind.
template <int S>
__device__ float by_weights(const Bf16* slopes, int batch, const Bf16* slice, float* parts, int rank) {
#if __CUDA_ARCH__ >= 900
  constexpr int kHidden = 128 * S;
  const auto cluster = cooperative_groups::this_cluster();
  const int thread = static_cast<int>(threadIdx.x);
  RowTerms<S> terms;
  terms.load(slopes + rank * kHidden, 4 * kHidden, batch);
  terms.multiply_into(parts, slice);
  __syncthreads();
  float* own = parts + kParts * kPartFloats;
  for (int k = 0; k < 4; ++k) {
    own[thread / 8 * kPartRow + thread % 8 * 4 + k] = sum_of_parts(parts, thread / 8, thread % 8 * 4 + k);
  }
  cluster.sync();
  float sum = 0;
  for (unsigned gate = 0; gate < 4; ++gate) {
    sum += cluster.map_shared_rank(own, gate)[(rank * 16 + thread / 32) * kPartRow + thread % 32];
  }
  return sum;
#else
  return 0;
#endif
}

template <int kHidden>
__device__ void load_columns(Bf16* slice, const Bf16* w_hh, int gate, int first) {
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < kHidden * kSlice / 8; i += kSteadyThreads) {
    const int k = i % kHidden;
    const int n = i / kHidden * 8;
    const auto* from = w_hh + static_cast<std::int64_t>(gate * kHidden + k) * kHidden + first + n;
    const uint4 eight = *reinterpret_cast<const uint4*>(from);
    const auto* each = reinterpret_cast<const Bf16*>(&eight);
#pragma unroll
    for (int j = 0; j < 8; ++j) slice[(n + j) * slice_row(kHidden) + k] = each[j];
  }
}

// Four blocks a cluster, one a gate.
template <int S>
__global__ void __launch_bounds__(kSteadyThreads, 1) lstm_grad_kernel(const __grid_constant__ SteadyBackward t) {
#if __CUDA_ARCH__ >= 900
  constexpr int kHidden = 128 * S;
  extern __shared__ __align__(16) unsigned char memory[];
  Bf16* slice = reinterpret_cast<Bf16*>(memory);
  float* parts = reinterpret_cast<float*>(slice + kSlice * slice_row(kHidden));
  const auto cluster = cooperative_groups::this_cluster();
  const int rank = static_cast<int>(cluster.block_rank());
  const int thread = static_cast<int>(threadIdx.x);
  const int first = static_cast<int>(blockIdx.x) / 4 * kSlice;
  load_columns<kHidden>(slice, t.w_hh, rank, first);
  const int row = 16 * rank + thread / 32;
  const int unit = first + thread % 32;
  const bool is_there = row < t.batch;
  const int e = row * kHidden + unit;
  const std::int64_t plane = static_cast<std::int64_t>(t.batch) * kHidden;
  float dc = is_there ? at_or_zero(t.dc_last, e) : 0;
  float dh = is_there ? at_or_zero(t.dh_last, e) : 0;
  UnitBefore u = unit_before<kHidden>(t, t.steps - 1, e, row, unit, is_there);
  __syncthreads();
  unsigned meetings = 0;
  for (int i = t.steps - 1; i >= 0; --i) {
    const std::int64_t time = t.reverse ? t.steps - 1 - i : i;
    Bf16* to = t.slopes + 4 * time * plane;
    dh += u.dh;
    const float top = tanhf(u.c);
    const float d = dc + dh * u.gates[3] * (1 - top * top);
    if (is_there) {
      Bf16* mine = to + row * 4 * kHidden + unit;
      mine[0] = narrow<Bf16>(d * u.gates[2] * u.gates[0] * (1 - u.gates[0]));
      mine[kHidden] = narrow<Bf16>(d * u.c_prev * u.gates[1] * (1 - u.gates[1]));
      mine[2 * kHidden] = narrow<Bf16>(d * u.gates[0] * (1 - u.gates[2] * u.gates[2]));
      mine[3 * kHidden] = narrow<Bf16>(dh * top * u.gates[3] * (1 - u.gates[3]));
    }
    dc = d * u.gates[1];
    if (i == 0 && t.dh0 == nullptr) break;
    __syncthreads();
    if (thread == 0) arrive(t.met);
    if (i > 0) u = unit_before<kHidden>(t, i - 1, e, row, unit, is_there);
    if (thread == 0) wait_until(t.met, ++meetings * gridDim.x);
    __syncthreads();
    dh = by_weights<S>(to, t.batch, slice, parts, rank);
  }
  if (is_there && t.dh0 != nullptr) t.dh0[e] = dh;
  if (is_there && t.dc0 != nullptr) t.dc0[e] = dc;
  cluster.sync();  // others may still read this block's sums
#endif
}

}  // namespace neap::ops
