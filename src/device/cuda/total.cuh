// One sum over many terms, in double and in an order that depends on their number alone.
#pragma once

#include "device/cuda/launch.cuh"

namespace neap {

// Blocks that share n terms.
inline std::int64_t total_parts(std::int64_t n) {
  constexpr std::int64_t kMost = 512;
  const std::int64_t wanted = (n + 4 * kThreads - 1) / (4 * kThreads);
  return wanted < 1 ? 1 : wanted < kMost ? wanted : kMost;
}
inline std::int64_t total_bytes(std::int64_t n) { return total_parts(n) * static_cast<std::int64_t>(sizeof(double)); }

template <class Term>
__global__ void total_parts_kernel(std::int64_t n, Term term, double* partial) {
  __shared__ double scratch[kThreads / 32];
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  double sum = 0;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride) {
    sum += term(i);
  }
  sum = block_reduce(sum, Sum(), scratch);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

template <class Finish>
__global__ void total_finish_kernel(std::int64_t parts, const double* partial, Finish finish) {
  __shared__ double scratch[kThreads / 32];
  double sum = 0;
  for (std::int64_t p = threadIdx.x; p < parts; p += blockDim.x) sum += partial[p];
  sum = block_reduce(sum, Sum(), scratch);
  if (threadIdx.x == 0) finish(sum);
}

// finish(sum of term(i) over i < n), by one thread; the workspace has total_bytes(n).
template <class Term, class Finish>
void total(const char* name, std::int64_t n, std::byte* workspace, cudaStream_t stream, Term term, Finish finish) {
  auto* partial = reinterpret_cast<double*>(workspace);
  const std::int64_t parts = total_parts(n);
  total_parts_kernel<<<static_cast<unsigned>(parts), kThreads, 0, stream>>>(n, term, partial);
  check_launch(name);
  total_finish_kernel<<<1, kThreads, 0, stream>>>(parts, partial, finish);
  check_launch(name);
}

}  // namespace neap
