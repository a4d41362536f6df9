// Rows of logits become losses and gradients in place: a block a row.
#pragma once

#include "device/cuda/floats.cuh"
#include "device/cuda/launch.cuh"
#include "ops/cross_entropy/cross_entropy_simd.h"

namespace neap::ops {

inline constexpr int kLossThreads = 512;

__device__ inline std::int64_t loss_target(const ClassRows& c, const void* targets, std::int64_t row) {
  return c.wide ? static_cast<const std::int64_t*>(targets)[row] : static_cast<const std::int32_t*>(targets)[row];
}
__device__ inline bool loss_counts(const ClassRows& c, std::int64_t target) {
  return target != c.ignore && target >= 0 && target < c.classes;
}

struct RunningSum {
  float top = -INFINITY, sum = 0, total = 0;

  __device__ void add(const float (&v)[kVector], int count) {
    float highest = top;
    for (int i = 0; i < count; ++i) highest = Largest()(v[i], highest);
    if (highest != top) sum *= __expf(top - highest);
    top = highest;
    for (int i = 0; i < count; ++i) {
      sum += __expf(v[i] - top);
      total += v[i];
    }
  }
};

// losses[row] = (1 - s) (lse - x_t) + s (lse - mean x), 0 where the target does not count.
template <class T>
__global__ void __launch_bounds__(kLossThreads)
    loss_rows_kernel(ClassRows c, T* logits, const void* targets, const float* scale_at, bool with_gradient,
                     double* losses) {
  __shared__ float tops[kLossThreads / 32];
  __shared__ double sums[kLossThreads / 32];
  const std::int64_t row = blockIdx.x;
  T* x = logits + row * c.classes;
  const std::int64_t target = loss_target(c, targets, row);
  const bool is_counted = loss_counts(c, target);
  const bool by_vector = c.classes % kVector == 0;
  const std::int64_t step = by_vector ? kVector : 1;
  RunningSum own;
  for (std::int64_t i = threadIdx.x * step; i < c.classes; i += kLossThreads * step) {
    float v[kVector];
    by_vector ? load8(x + i, v) : void(v[0] = widen(x[i]));
    own.add(v, by_vector ? kVector : 1);
  }
  const float hit = is_counted ? widen(x[target]) : 0;  // before anybody writes
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
  if (!with_gradient) return;
  const float scale = is_counted ? *scale_at : 0;
  const float lse = static_cast<float>(level);
  const float share = c.smoothing / static_cast<float>(c.classes);
  const float of_target = 1 - c.smoothing;
  for (std::int64_t i = threadIdx.x * step; i < c.classes; i += kLossThreads * step) {
    float v[kVector];
    by_vector ? load8(x + i, v) : void(v[0] = widen(x[i]));
    for (int k = 0; k < (by_vector ? kVector : 1); ++k) {
      const float d = __expf(v[k] - lse) - share - (i + k == target ? of_target : 0);
      v[k] = is_counted ? d * scale : 0;
    }
    by_vector ? store8(x + i, v) : void(x[i] = narrow<T>(v[0]));
  }
}

// One block. How much a row weighs, from the targets that count; later the sum of the losses.
__global__ void loss_scale_kernel(ClassRows c, const void* targets, bool mean, float* scale) {
  __shared__ double sums[kThreads / 32];
  double count = 0;
  for (std::int64_t row = threadIdx.x; row < c.rows; row += blockDim.x) {
    count += loss_counts(c, loss_target(c, targets, row)) ? 1 : 0;
  }
  count = block_reduce(count, Sum(), sums);
  if (threadIdx.x == 0) *scale = static_cast<float>(!mean ? 1 : count == 0 ? 0 : 1 / count);
}

__global__ void loss_total_kernel(std::int64_t rows, const double* losses, const float* scale, float* loss) {
  __shared__ double sums[kThreads / 32];
  double sum = 0;
  for (std::int64_t row = threadIdx.x; row < rows; row += blockDim.x) sum += losses[row];
  sum = block_reduce(sum, Sum(), sums);
  if (threadIdx.x == 0) *loss = static_cast<float>(sum * *scale);
}

}  // namespace neap::ops
