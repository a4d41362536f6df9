#include "device/cuda/launch.cuh"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/cuda_kernel.h"

namespace neap::ops {
namespace {

__device__ std::int64_t target_of(const ClassRows& c, const void* targets, std::int64_t row) {
  return c.wide ? static_cast<const std::int64_t*>(targets)[row] : static_cast<const std::int32_t*>(targets)[row];
}
__device__ bool counts(const ClassRows& c, std::int64_t target) {
  return target != c.ignore && target >= 0 && target < c.classes;
}

// A block a row: losses[row] = (1 - s) (lse - x_t) + s (lse - mean x), 0 where the target does not count.
__global__ void rows_kernel(ClassRows c, const float* logits, const void* targets, float* lse, double* losses) {
  __shared__ float tops[kThreads / 32];
  __shared__ double sums[kThreads / 32];
  for (std::int64_t row = blockIdx.x; row < c.rows; row += gridDim.x) {
    const float* x = logits + row * c.classes;
    const std::int64_t target = target_of(c, targets, row);
    const bool is_counted = counts(c, target);
    float top = -INFINITY;
    for (std::int64_t i = threadIdx.x; i < c.classes; i += blockDim.x) top = Largest()(x[i], top);
    top = block_reduce(top, Largest(), tops);
    double exps = 0;
    double total = 0;
    for (std::int64_t i = threadIdx.x; i < c.classes; i += blockDim.x) {
      exps += expf(x[i] - top);
      total += x[i];
    }
    exps = block_reduce(exps, Sum(), sums);
    if (c.smoothing != 0) total = block_reduce(total, Sum(), sums);
    if (threadIdx.x != 0) continue;
    const double level = static_cast<double>(top) + log(exps);
    if (lse != nullptr) lse[row] = is_counted ? static_cast<float>(level) : 0;
    const double hit = is_counted ? level - x[target] : 0;
    const double spread = level - total / static_cast<double>(c.classes);
    losses[row] = is_counted ? (c.smoothing == 0 ? hit : hit + c.smoothing * (spread - hit)) : 0;
  }
}

// One block: the sum of the losses and how many count, each thread its rows in order, then the threads in order.
__global__ void total_kernel(ClassRows c, const void* targets, const double* losses, bool mean, float* loss,
                             float* scale, const float* dloss) {
  __shared__ double sums[kThreads / 32];
  double sum = 0;
  double count = 0;
  for (std::int64_t row = threadIdx.x; row < c.rows; row += blockDim.x) {
    count += counts(c, target_of(c, targets, row)) ? 1 : 0;
    if (losses != nullptr) sum += losses[row];
  }
  sum = block_reduce(sum, Sum(), sums);
  count = block_reduce(count, Sum(), sums);
  if (threadIdx.x != 0) return;
  const double factor = !mean ? 1 : count == 0 ? 0 : 1 / count;
  if (loss != nullptr) *loss = static_cast<float>(sum * factor);
  if (scale != nullptr) *scale = static_cast<float>(*dloss * factor);
}

__global__ void grad_kernel(ClassRows c, const float* scale_at, const float* logits, const void* targets,
                            const float* lse, float* dx) {
  const float scale = *scale_at;
  const float spread = c.smoothing / static_cast<float>(c.classes);
  for (std::int64_t row = blockIdx.x; row < c.rows; row += gridDim.x) {
    const std::int64_t target = target_of(c, targets, row);
    const bool is_counted = counts(c, target);
    const float level = is_counted ? lse[row] : 0;
    for (std::int64_t i = threadIdx.x; i < c.classes; i += blockDim.x) {
      const std::int64_t at = row * c.classes + i;
      float d = (expf(logits[at] - level) - spread) * scale;
      if (i == target) d -= scale * (1 - c.smoothing);
      dx[at] = is_counted ? d : 0;
    }
  }
}

// Counts are integers: atomics give the same number in any order.
__global__ void correct_kernel(ClassRows c, const float* logits, const void* targets, unsigned long long* out) {
  for (std::int64_t row = blockIdx.x; row < c.rows; row += gridDim.x) {
    const std::int64_t target = target_of(c, targets, row);
    if (!counts(c, target)) continue;
    const float* x = logits + row * c.classes;
    int is_beaten = 0;
    for (std::int64_t i = threadIdx.x; i < c.classes; i += blockDim.x) {
      const bool is_below = i < target ? x[i] < x[target] : x[i] <= x[target];
      is_beaten |= is_below ? 0 : 1;
    }
    is_beaten = __syncthreads_or(is_beaten);
    if (threadIdx.x != 0) continue;
    atomicAdd(out + 1, 1ULL);
    if (is_beaten == 0) atomicAdd(out, 1ULL);
  }
}

unsigned row_blocks(const ClassRows& c) { return static_cast<unsigned>(c.rows < kMostBlocks ? c.rows : kMostBlocks); }

}  // namespace

Prepared cross_entropy_cuda(const OpCall& call) {
  const ClassRows rows = class_rows(call, 0, 1);
  return cuda_kernel(
      [c = rows, mean = is_mean(call.attrs)](const Buffers& b, cudaStream_t stream) {
        auto* losses = reinterpret_cast<double*>(b.workspace);
        if (c.rows > 0) {
          rows_kernel<<<row_blocks(c), kThreads, 0, stream>>>(c, b.in<float>(0), b.in<void>(1), b.out<float>(1),
                                                              losses);
          check_launch("cross_entropy");
        }
        total_kernel<<<1, kThreads, 0, stream>>>(c, b.in<void>(1), losses, mean, b.out<float>(0), nullptr, nullptr);
        check_launch("cross_entropy");
      },
      rows.rows * static_cast<std::int64_t>(sizeof(double)));
}

Prepared cross_entropy_grad_cuda(const OpCall& call) {
  return cuda_kernel(
      [c = class_rows(call, 1, 2), mean = is_mean(call.attrs)](const Buffers& b, cudaStream_t stream) {
        if (c.rows == 0) return;
        auto* scale = reinterpret_cast<float*>(b.workspace);
        total_kernel<<<1, kThreads, 0, stream>>>(c, b.in<void>(2), nullptr, mean, nullptr, scale, b.in<float>(0));
        check_launch("cross_entropy_grad");
        grad_kernel<<<row_blocks(c), kThreads, 0, stream>>>(c, scale, b.in<float>(1), b.in<void>(2), b.in<float>(3),
                                                            b.out<float>(0));
        check_launch("cross_entropy_grad");
      },
      sizeof(float));
}

Prepared correct_count_cuda(const OpCall& call) {
  return cuda_kernel([c = class_rows(call, 0, 1)](const Buffers& b, cudaStream_t stream) {
    NEAP_CHECK_CUDA(cudaMemsetAsync(b.outputs[0], 0, 2 * sizeof(std::int64_t), stream));
    if (c.rows == 0) return;
    correct_kernel<<<row_blocks(c), kThreads, 0, stream>>>(c, b.in<float>(0), b.in<void>(1),
                                                           b.out<unsigned long long>(0));
    check_launch("correct_count");
  });
}

}  // namespace neap::ops
