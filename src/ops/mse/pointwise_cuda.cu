#include "device/cuda/total.cuh"
#include "ops/cuda_kernel.h"
#include "ops/mse/pointwise.h"

namespace neap::ops {
namespace {

__device__ double value(PointLoss loss, double x, double y, double beta) {
  const double d = fabs(x - y);
  switch (loss) {
    case PointLoss::kSquare: return d * d;
    case PointLoss::kAbsolute: return d;
    case PointLoss::kSmooth: return d < beta ? 0.5 * d * d / beta : d - 0.5 * beta;
    default: return (x > 0 ? x : 0) - x * y + log1p(exp(-fabs(x)));
  }
}

__device__ float slope(PointLoss loss, float x, float y, float beta, bool by_y) {
  if (loss == PointLoss::kLogistic) return by_y ? -x : 1 / (1 + expf(-x)) - y;
  const float d = by_y ? y - x : x - y;
  if (loss == PointLoss::kSquare) return 2 * d;
  if (loss == PointLoss::kSmooth && fabsf(d) < beta) return d / beta;
  return d > 0 ? 1 : d < 0 ? -1 : d * 0;
}

void run_pointwise(const Buffers& b, cudaStream_t stream, const PointwiseCall& c, PointLoss loss) {
  const auto* x = b.in<float>(0);
  const auto* y = b.in<float>(1);
  auto* out = b.out<float>(0);
  total(
      "loss", c.n, b.workspace, stream, [=] __device__(std::int64_t i) { return value(loss, x[i], y[i], c.beta); },
      [=] __device__(double sum) { *out = static_cast<float>(sum * c.scale); });
}

}  // namespace

Prepared pointwise_cuda(const OpCall& call, PointLoss loss) {
  const PointwiseCall c = pointwise_call(call, 0);
  return cuda_kernel([c, loss](const Buffers& b, cudaStream_t stream) { run_pointwise(b, stream, c, loss); },
                     total_bytes(c.n));
}

namespace {

void run_pointwise_grad(const Buffers& b, cudaStream_t stream, const PointwiseCall& c, PointLoss loss) {
  const auto* dloss = b.in<float>(0);
  const auto* x = b.in<float>(1);
  const auto* y = b.in<float>(2);
  auto* out = b.out<float>(0);
  each("loss_grad", c.n, stream, [=] __device__(std::int64_t i) {
    const auto scale = static_cast<float>(*dloss * c.scale);
    out[i] = scale * slope(loss, x[i], y[i], c.beta, c.by_y);
  });
}

}  // namespace

Prepared pointwise_grad_cuda(const OpCall& call, PointLoss loss) {
  return cuda_kernel([c = pointwise_call(call, 1), loss](const Buffers& b, cudaStream_t stream) {
    run_pointwise_grad(b, stream, c, loss);
  });
}

}  // namespace neap::ops
