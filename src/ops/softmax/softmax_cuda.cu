// Softmax and its logarithm along one axis of [outer, width, inner]: a block a row.
#include "device/cuda/launch.cuh"
#include "ops/cuda_kernel.h"
#include "ops/softmax/softmax.h"

namespace neap::ops {
namespace {

template <bool kLog>
__global__ void forward_kernel(AxisShape s, const float* x, float* y) {
  __shared__ float scratch[kThreads / 32];
  for (std::int64_t row = blockIdx.x; row < s.outer * s.inner; row += gridDim.x) {
    const std::int64_t first = row / s.inner * s.width * s.inner + row % s.inner;
    float top = -INFINITY;
    for (std::int64_t i = threadIdx.x; i < s.width; i += kThreads) top = Largest()(x[first + i * s.inner], top);
    top = block_reduce(top, Largest(), scratch);
    float sum = 0;
    for (std::int64_t i = threadIdx.x; i < s.width; i += kThreads) sum += expf(x[first + i * s.inner] - top);
    sum = block_reduce(sum, Sum(), scratch);
    const float level = kLog ? logf(sum) : 1 / sum;
    for (std::int64_t i = threadIdx.x; i < s.width; i += kThreads) {
      const float from_top = x[first + i * s.inner] - top;
      y[first + i * s.inner] = kLog ? from_top - level : expf(from_top) * level;
    }
  }
}

// dx = y (dy - sum(dy y)); of the logarithm dx = dy - e^y sum(dy)
template <bool kLog>
__global__ void backward_kernel(AxisShape s, const float* dy, const float* y, float* dx) {
  __shared__ float scratch[kThreads / 32];
  for (std::int64_t row = blockIdx.x; row < s.outer * s.inner; row += gridDim.x) {
    const std::int64_t first = row / s.inner * s.width * s.inner + row % s.inner;
    float sum = 0;
    for (std::int64_t i = threadIdx.x; i < s.width; i += kThreads) {
      const std::int64_t at = first + i * s.inner;
      sum += kLog ? dy[at] : dy[at] * y[at];
    }
    sum = block_reduce(sum, Sum(), scratch);
    for (std::int64_t i = threadIdx.x; i < s.width; i += kThreads) {
      const std::int64_t at = first + i * s.inner;
      dx[at] = kLog ? dy[at] - expf(y[at]) * sum : y[at] * (dy[at] - sum);
    }
  }
}

template <bool kLog>
Prepared forward(const OpCall& call) {
  return cuda_kernel([s = axis_shape(call)](const Buffers& b, cudaStream_t stream) {
    const std::int64_t rows = s.outer * s.inner;
    if (rows == 0) return;
    const auto blocks = static_cast<unsigned>(rows < kMostBlocks ? rows : kMostBlocks);
    forward_kernel<kLog><<<blocks, kThreads, 0, stream>>>(s, b.in<float>(0), b.out<float>(0));
    check_launch("softmax");
  });
}

template <bool kLog>
Prepared backward(const OpCall& call) {
  return cuda_kernel([s = axis_shape(call)](const Buffers& b, cudaStream_t stream) {
    const std::int64_t rows = s.outer * s.inner;
    if (rows == 0) return;
    const auto blocks = static_cast<unsigned>(rows < kMostBlocks ? rows : kMostBlocks);
    backward_kernel<kLog><<<blocks, kThreads, 0, stream>>>(s, b.in<float>(0), b.in<float>(1), b.out<float>(0));
    check_launch("softmax_grad");
  });
}

}  // namespace

Prepared softmax_cuda(const OpCall& call) { return forward<false>(call); }
Prepared softmax_grad_cuda(const OpCall& call) { return backward<false>(call); }
Prepared log_softmax_cuda(const OpCall& call) { return forward<true>(call); }
Prepared log_softmax_grad_cuda(const OpCall& call) { return backward<true>(call); }

}  // namespace neap::ops
