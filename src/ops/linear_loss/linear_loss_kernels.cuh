// Rows of logits become losses and gradients in place: a block a row.
#pragma once

#include "device/cuda/floats.cuh"
#include "device/cuda/launch.cuh"
#include "device/cuda/quick.cuh"
#include "ops/cross_entropy/cross_entropy_simd.h"

namespace neap::ops {

inline constexpr int kLossThreads = 512;
inline constexpr int kWideBlock = 1024;  // where there is one block

__device__ inline std::int64_t loss_target(const ClassRows& c, const void* targets, std::int64_t row) {
  return c.wide ? static_cast<const std::int64_t*>(targets)[row] : static_cast<const std::int32_t*>(targets)[row];
}
__device__ inline bool loss_counts(const ClassRows& c, std::int64_t target) {
  return target != c.ignore && target >= 0 && target < c.classes;
}

// exp(v - level). For bf16 in two instructions, whose errors are far below its own.
template <class T>
struct ExpFrom {
  float level;
  __device__ explicit ExpFrom(float from) : level(sizeof(T) == 2 ? from * kLog2E : from) {}
  __device__ float operator()(float v) const {
    if constexpr (sizeof(T) == 2) return quick_exp2(fmaf(v, kLog2E, -level));
    return __expf(v - level);
  }
  static constexpr float kLog2E = 1.44269504F;
};

template <class T>
struct RunningSum {
  float top = -INFINITY, sum = 0, total = 0;

  // A NaN need not come to the top: the sum has it.
  __device__ void add(const float (&v)[kVector], int count, bool with_total) {
    float highest = top;
    for (int i = 0; i < count; ++i) highest = fmaxf(v[i], highest);
    if (highest != top) sum *= __expf(top - highest);
    top = highest;
    const ExpFrom<T> exp_of(top);
    for (int i = 0; i < count; ++i) sum += exp_of(v[i]);
    if (!with_total) return;
    for (int i = 0; i < count; ++i) total += v[i];
  }
};

// Where a row's logits are read the second time: in the block's shared memory, where they fit, or again in the tensor.
template <class T, bool kShared>
struct LossRow {
  T* x;
  T* kept;
  std::int64_t classes;
  bool by_vector;

  __device__ std::int64_t step() const { return by_vector ? kVector : 1; }
  // Only the thread that has read elements here gets them again: no barrier.
  __device__ void read(std::int64_t i, float (&v)[kVector]) const {
    if constexpr (kShared) {
      const uint4 bits = *reinterpret_cast<const uint4*>(x + i);
      *reinterpret_cast<uint4*>(kept + i) = bits;
      load8(reinterpret_cast<const T*>(&bits), v);
    } else {
      by_vector ? load8(x + i, v) : void(v[0] = widen(x[i]));
    }
  }
  __device__ void read_again(std::int64_t i, float (&v)[kVector]) const {
    const T* from = kShared ? kept : x;
    by_vector ? load8(from + i, v) : void(v[0] = widen(from[i]));
  }
  __device__ void write(std::int64_t i, const float (&v)[kVector]) const {
    by_vector ? store8(x + i, v) : void(x[i] = narrow<T>(v[0]));
  }
};

// Two blocks a multiprocessor: one computes while the other waits for memory.
template <class T>
bool fits_shared_row(std::int64_t classes) {
  constexpr std::int64_t kMostBytes = 112 * 1024;
  return sizeof(T) == 2 && classes % kVector == 0 && classes * static_cast<std::int64_t>(sizeof(T)) <= kMostBytes;
}

// `target` is negative where it does not count.
template <class T, bool kShared>
__device__ void loss_row_gradient(const ClassRows& c, const LossRow<T, kShared>& x, std::int64_t target, float scale,
                                  float lse) {
  const float share = c.smoothing / static_cast<float>(c.classes);
  const float of_target = 1 - c.smoothing;
  const int count = kShared ? kVector : static_cast<int>(x.step());
  const ExpFrom<T> exp_of(lse);
  const float weight = target >= 0 ? scale : 0;
#pragma unroll 2
  for (std::int64_t i = threadIdx.x * x.step(); i < c.classes; i += kLossThreads * x.step()) {
    float v[kVector];
    x.read_again(i, v);
    const std::int64_t hit = target - i;
    const bool has_hit = hit >= 0 && hit < count;
    for (int k = 0; k < count; ++k) v[k] = exp_of(v[k]) - share;
    if (has_hit) {
#pragma unroll
      for (int k = 0; k < kVector; ++k) v[k] -= k == hit ? of_target : 0;
    }
    for (int k = 0; k < count; ++k) v[k] = weight == 0 ? 0 : v[k] * weight;
    x.write(i, v);
  }
}

// losses[row] = (1 - s) (lse - x_t) + s (lse - mean x), 0 where the target does not count.
template <class T, bool kShared>
__global__ void __launch_bounds__(kLossThreads, 2)
    loss_rows_kernel(ClassRows c, T* logits, const void* targets, const float* scale_at, bool with_gradient,
                     double* losses) {
  extern __shared__ __align__(16) unsigned char shared_row[];
  __shared__ float tops[kLossThreads / 32];
  __shared__ double sums[kLossThreads / 32];
  const std::int64_t row = blockIdx.x;
  const LossRow<T, kShared> x{logits + row * c.classes, reinterpret_cast<T*>(shared_row), c.classes,
                              kShared || c.classes % kVector == 0};
  const std::int64_t target = loss_target(c, targets, row);
  const bool is_counted = loss_counts(c, target);
  const int count = kShared ? kVector : static_cast<int>(x.step());
  RunningSum<T> own;
#pragma unroll 4
  for (std::int64_t i = threadIdx.x * x.step(); i < c.classes; i += kLossThreads * x.step()) {
    float v[kVector];
    x.read(i, v);
    own.add(v, count, c.smoothing != 0);
  }
  const float hit = is_counted ? widen(x.x[target]) : 0;  // before anybody writes
  const float top = block_reduce(own.top, Largest(), tops);
  const double exps = block_reduce(
      own.sum == 0 ? 0.0 : static_cast<double>(own.sum) * static_cast<double>(__expf(own.top - top)), Sum(), sums);
  double total = 0;
  if (c.smoothing != 0) total = block_reduce(static_cast<double>(own.total), Sum(), sums);
  const double level = static_cast<double>(top) + log(exps);
  if (threadIdx.x == 0) {
    const double own_loss = level - static_cast<double>(hit);
    const double spread = level - total / static_cast<double>(c.classes);
    losses[row] = is_counted ? (c.smoothing == 0 ? own_loss : own_loss + c.smoothing * (spread - own_loss)) : 0;
  }
  if (with_gradient) loss_row_gradient(c, x, is_counted ? target : -1, *scale_at, static_cast<float>(level));
}

template <class T>
void run_loss_rows(const ClassRows& c, T* logits, const void* targets, const float* scale, bool with_gradient,
                   double* losses, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(c.rows);
  if (fits_shared_row<T>(c.classes)) {
    const auto bytes = static_cast<int>(c.classes * static_cast<std::int64_t>(sizeof(T)));
    const auto kernel = loss_rows_kernel<T, true>;
    NEAP_CHECK_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    kernel<<<blocks, kLossThreads, static_cast<std::size_t>(bytes), stream>>>(c, logits, targets, scale, with_gradient,
                                                                              losses);
  } else {
    loss_rows_kernel<T, false><<<blocks, kLossThreads, 0, stream>>>(c, logits, targets, scale, with_gradient, losses);
  }
  check_launch("linear_loss");
}

// One block. How much a row weighs, from the targets that count; later the sum of the losses.
static __global__ void loss_scale_kernel(ClassRows c, const void* targets, bool mean, float* scale) {
  __shared__ double sums[kWideBlock / 32];
  double count = 0;
#pragma unroll 8
  for (std::int64_t row = threadIdx.x; row < c.rows; row += blockDim.x) {
    count += loss_counts(c, loss_target(c, targets, row)) ? 1 : 0;
  }
  count = block_reduce(count, Sum(), sums);
  if (threadIdx.x == 0) *scale = static_cast<float>(!mean ? 1 : count == 0 ? 0 : 1 / count);
}

static __global__ void loss_total_kernel(std::int64_t rows, const double* losses, const float* scale, float* loss) {
  __shared__ double sums[kWideBlock / 32];
  double sum = 0;
#pragma unroll 8
  for (std::int64_t row = threadIdx.x; row < rows; row += blockDim.x) sum += losses[row];
  sum = block_reduce(sum, Sum(), sums);
  if (threadIdx.x == 0) *loss = static_cast<float>(sum * *scale);
}

}  // namespace neap::ops
