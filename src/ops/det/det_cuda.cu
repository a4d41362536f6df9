// A block a matrix: the reference's elimination, step by step, to the same bits.
#include "core/bytes.h"
#include "device/cuda/launch.cuh"
#include "ops/cuda_kernel.h"
#include "ops/det/det.h"

namespace neap::ops {
namespace {

constexpr std::int64_t kMatricesAtOnce = 528;  // a few for each multiprocessor of the largest cards

// By the first warp: the first row with the largest |a(i, k)|, i >= k. What is no number is never larger, and nothing
// is larger than it.
__device__ std::int64_t pivot_row(const double* a, std::int64_t n, std::int64_t k) {
  const auto lane = static_cast<std::int64_t>(threadIdx.x);
  double best = fabs(a[k * n + k]);
  std::int64_t row = k;
  if (best != best) return k;
  for (std::int64_t i = k + 1 + lane; i < n; i += 32) {
    if (fabs(a[i * n + k]) > best) {
      best = fabs(a[i * n + k]);
      row = i;
    }
  }
  for (int step = 16; step > 0; step /= 2) {
    const double other = __shfl_xor_sync(0xffffffffU, best, step);
    const std::int64_t at = __shfl_xor_sync(0xffffffffU, static_cast<long long>(row), step);
    if (other > best || (other == best && at < row)) {
      best = other;
      row = at;
    }
  }
  return row;
}

// Destroys the matrix. All threads of the block get the result.
__device__ double determinant(double* a, std::int64_t n, std::int64_t* pivot) {
  const auto thread = static_cast<std::int64_t>(threadIdx.x);
  const auto threads = static_cast<std::int64_t>(blockDim.x);
  double product = 1;
  for (std::int64_t k = 0; k < n; ++k) {
    __syncthreads();
    if (thread < 32) {
      const std::int64_t found = pivot_row(a, n, k);
      if (thread == 0) *pivot = found;
    }
    __syncthreads();
    const std::int64_t row = *pivot;
    const double head = a[row * n + k];
    if (head == 0) return 0;
    product = (row != k ? -product : product) * head;
    __syncthreads();
    for (std::int64_t j = k + thread; row != k && j < n; j += threads) {
      const double kept = a[k * n + j];
      a[k * n + j] = a[row * n + j];
      a[row * n + j] = kept;
    }
    __syncthreads();
    for (std::int64_t i = k + 1 + thread / 32; i < n; i += threads / 32) {
      const double factor = a[i * n + k] / head;
      for (std::int64_t j = k + 1 + thread % 32; j < n; j += 32) a[i * n + j] -= factor * a[k * n + j];
    }
  }
  return product;
}

template <class T>
__global__ void det_kernel(std::int64_t count, std::int64_t n, const T* x, double* workspace, T* y) {
  __shared__ std::int64_t pivot;
  double* a = workspace + blockIdx.x * n * n;
  for (std::int64_t m = blockIdx.x; m < count; m += gridDim.x) {
    for (std::int64_t i = threadIdx.x; i < n * n; i += blockDim.x) a[i] = x[m * n * n + i];
    const double result = determinant(a, n, &pivot);
    if (threadIdx.x == 0) y[m] = static_cast<T>(result);
    __syncthreads();
  }
}

template <class T>
Prepared kernel(std::int64_t count, std::int64_t n) {
  const std::int64_t blocks = count < kMatricesAtOnce ? count : kMatricesAtOnce;
  return cuda_kernel(
      [=](const Buffers& b, cudaStream_t stream) {
        if (count == 0) return;
        const int threads = n <= 32 ? 32 : n <= 128 ? 256 : 1024;
        det_kernel<<<static_cast<unsigned>(blocks), threads, 0, stream>>>(
            count, n, b.in<T>(0), reinterpret_cast<double*>(b.workspace), b.out<T>(0));
        check_launch("det");
      },
      blocks * n * n * static_cast<std::int64_t>(sizeof(double)));
}

}  // namespace

Prepared det_cuda(const OpCall& call) {
  const std::int64_t count = call.outputs[0].elements();
  const std::int64_t n = call.shape(0).size(-1);
  switch (call.in(0).dtype) {
    case DType::kF32: return kernel<float>(count, n);
    case DType::kF64: return kernel<double>(count, n);
    default: return Declined{"f32 and f64 only"};
  }
}

}  // namespace neap::ops
