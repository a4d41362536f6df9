#include "device/cuda/launch.cuh"
#include "ops/cross_entropy/classes.h"
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

// One block: of the rows that count, the sum of -log_probs (none given: of nothing), and 1 over their number.
__global__ void total_kernel(ClassRows c, const float* log_probs, const void* targets, bool mean, float* loss,
                             double* factor) {
  __shared__ double scratch[kThreads / 32];
  double sum = 0;
  double count = 0;
  for (std::int64_t row = threadIdx.x; row < c.rows; row += blockDim.x) {
    const std::int64_t target = target_of(c, targets, row);
    if (!counts(c, target)) continue;
    count += 1;
    if (log_probs != nullptr) sum -= log_probs[row * c.classes + target];
  }
  sum = block_reduce(sum, Sum(), scratch);
  count = block_reduce(count, Sum(), scratch);
  if (threadIdx.x != 0) return;
  const double scale = !mean ? 1 : count == 0 ? 0 : 1 / count;
  if (loss != nullptr) *loss = static_cast<float>(sum * scale);
  if (factor != nullptr) *factor = scale;
}

}  // namespace

Prepared nll_loss_cuda(const OpCall& call) {
  return cuda_kernel([c = class_rows(call, 0, 1), mean = is_mean(call.attrs)](const Buffers& b, cudaStream_t stream) {
    total_kernel<<<1, kThreads, 0, stream>>>(c, b.in<float>(0), b.in<void>(1), mean, b.out<float>(0), nullptr);
    check_launch("nll_loss");
  });
}

namespace {

void run_nll_loss_grad(const Buffers& b, cudaStream_t stream, const ClassRows& c, bool mean) {
  const auto* dloss = b.in<float>(0);
  const void* targets = b.in<void>(1);
  auto* factor = reinterpret_cast<double*>(b.workspace);
  auto* out = b.out<float>(0);
  total_kernel<<<1, kThreads, 0, stream>>>(c, nullptr, targets, mean, nullptr, factor);
  check_launch("nll_loss_grad");
  each("nll_loss_grad", c.rows * c.classes, stream, [=] __device__(std::int64_t i) {
    const std::int64_t target = target_of(c, targets, i / c.classes);
    const bool is_it = counts(c, target) && i % c.classes == target;
    out[i] = is_it ? static_cast<float>(-*dloss * *factor) : 0;
  });
}

}  // namespace

Prepared nll_loss_grad_cuda(const OpCall& call) {
  const ClassRows rows = class_rows(call.attrs.shape("shape"), call, 1);
  return cuda_kernel([c = rows, mean = is_mean(call.attrs)](
                         const Buffers& b, cudaStream_t stream) { run_nll_loss_grad(b, stream, c, mean); },
                     sizeof(double));
}

}  // namespace neap::ops
