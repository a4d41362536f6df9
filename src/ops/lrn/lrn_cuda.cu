#include "device/cuda/launch.cuh"
#include "ops/cuda_kernel.h"
#include "ops/lrn/lrn.h"

namespace neap::ops {
namespace {

__device__ double sum_at(const LrnShape& s, const float* x, std::int64_t c) {
  const std::int64_t first = c - (s.size - 1) / 2;
  const std::int64_t last = c + s.size / 2;
  double sum = 0;
  for (std::int64_t i = first < 0 ? 0 : first; i <= last && i < s.channels; ++i)
    sum += static_cast<double>(x[i]) * x[i];
  return s.bias + s.alpha / static_cast<double>(s.size) * sum;
}

void run_lrn(const Buffers& b, cudaStream_t stream, const LrnShape& s) {
  const auto* x = b.in<float>(0);
  auto* y = b.out<float>(0);
  each("lrn", s.rows * s.channels, stream, [=] __device__(std::int64_t i) {
    const std::int64_t c = i % s.channels;
    y[i] = static_cast<float>(x[i] * pow(sum_at(s, x + (i - c), c), -s.beta));
  });
}

}  // namespace

Prepared lrn_cuda(const LrnShape& shape) {
  return cuda_kernel([s = shape](const Buffers& b, cudaStream_t stream) { run_lrn(b, stream, s); });
}

namespace {

void run_lrn_grad(const Buffers& b, cudaStream_t stream, const LrnShape& s) {
  const auto* dy = b.in<float>(0);
  const auto* x = b.in<float>(1);
  auto* dx = b.out<float>(0);
  const double factor = -2 * s.alpha * s.beta / static_cast<double>(s.size);
  each("lrn_grad", s.rows * s.channels, stream, [=] __device__(std::int64_t i) {
    const std::int64_t c = i % s.channels;
    const float* row = x + (i - c);
    const float* drow = dy + (i - c);
    const std::int64_t first = c - s.size / 2;
    const std::int64_t last = c + (s.size - 1) / 2;
    double sum = 0;
    for (std::int64_t j = first < 0 ? 0 : first; j <= last && j < s.channels; ++j) {
      sum += static_cast<double>(drow[j]) * row[j] * pow(sum_at(s, row, j), -s.beta - 1);
    }
    dx[i] = static_cast<float>(drow[c] * pow(sum_at(s, row, c), -s.beta) + factor * row[c] * sum);
  });
}

}  // namespace

Prepared lrn_grad_cuda(const LrnShape& shape) {
  return cuda_kernel([s = shape](const Buffers& b, cudaStream_t stream) { run_lrn_grad(b, stream, s); });
}

}  // namespace neap::ops
