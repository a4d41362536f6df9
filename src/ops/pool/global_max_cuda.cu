#include "device/cuda/launch.cuh"
#include "ops/cuda_kernel.h"
#include "ops/pool/pool.h"

namespace neap::ops {

namespace {

void run_global_max_pool(const Buffers& b, cudaStream_t stream, const GlobalShape& s) {
  const auto* x = b.in<float>(0);
  auto* y = b.out<float>(0);
  auto* index = b.out<std::int32_t>(1);
  each("global_max_pool", s.n * s.c, stream, [=] __device__(std::int64_t i) {
    const float* image = x + i / s.c * s.rows * s.c + i % s.c;
    std::int64_t best = 0;
    for (std::int64_t r = 1; r < s.rows; ++r) {
      const float v = image[r * s.c];
      if (v > image[best * s.c] || v != v) best = r;
    }
    y[i] = image[best * s.c];
    if (index != nullptr) index[i] = static_cast<std::int32_t>(best);
  });
}

}  // namespace

Prepared global_max_pool_cuda(const OpCall& call) {
  return cuda_kernel(
      [s = global_shape(call.shape(0))](const Buffers& b, cudaStream_t stream) { run_global_max_pool(b, stream, s); });
}

namespace {

void run_global_max_pool_grad(const Buffers& b, cudaStream_t stream, const GlobalShape& s) {
  const auto* dy = b.in<float>(0);
  const auto* index = b.in<std::int32_t>(1);
  auto* dx = b.out<float>(0);
  each("global_max_pool_grad", s.n * s.rows * s.c, stream, [=] __device__(std::int64_t i) {
    const std::int64_t from = i / (s.rows * s.c) * s.c + i % s.c;
    dx[i] = index[from] == i / s.c % s.rows ? dy[from] : 0;
  });
}

}  // namespace

Prepared global_max_pool_grad_cuda(const OpCall& call) {
  return cuda_kernel([s = global_shape(call.outputs[0].shape)](const Buffers& b, cudaStream_t stream) {
    run_global_max_pool_grad(b, stream, s);
  });
}

}  // namespace neap::ops
