// The formulas of steps.h; what hyper holds is read on the device.
#include "device/cuda/launch.cuh"
#include "ops/cuda_kernel.h"
#include "ops/update/steps.cuh"
#include "ops/update/update.h"

namespace neap::ops {
namespace {

void run_sgd(const Buffers& b, cudaStream_t stream, std::int64_t n, bool nesterov) {
  auto* param = b.state<float>(0);
  const auto* grad = b.in<float>(1);
  auto* momentum = b.state<float>(2);
  const auto* hyper = b.in<float>(3);
  const auto* clip = b.in<float>(4);
  each("sgd_update", n, stream, [=] __device__(std::int64_t i) {
    if (hyper[7] == 0) return;  // put off
    sgd_step(param[i], grad[i], momentum != nullptr ? momentum + i : nullptr, hyper, clip, nesterov);
  });
}

__global__ void __launch_bounds__(kThreads)
    adam_kernel(std::int64_t n, float* param, const float* grad, float* m, float* v, const float* hyper,
                const float* clip, bool decoupled, bool by_vector) {
  if (hyper[7] == 0) return;  // put off
  const Adam adam(hyper, clip, decoupled);
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t whole = by_vector ? n / 4 : 0;
  for (std::int64_t i = first; i < whole; i += stride) {
    adam.step4(param + 4 * i, grad + 4 * i, m + 4 * i, v + 4 * i);
  }
  for (std::int64_t i = 4 * whole + first; i < n; i += stride) adam.step(param[i], grad[i], m[i], v[i]);
}

void run_adam(const Buffers& b, cudaStream_t stream, std::int64_t n, bool decoupled) {
  if (n == 0) return;
  const auto is_aligned = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; };
  const bool by_vector =
      is_aligned(b.inputs[0]) && is_aligned(b.inputs[1]) && is_aligned(b.inputs[2]) && is_aligned(b.inputs[3]);
  const std::int64_t blocks = (n / 4 + kThreads) / kThreads;
  adam_kernel<<<static_cast<unsigned>(blocks < 2112 ? blocks : 2112), kThreads, 0, stream>>>(
      n, b.state<float>(0), b.in<float>(1), b.state<float>(2), b.state<float>(3), b.in<float>(4), b.in<float>(5),
      decoupled, by_vector);
  check_launch("adam_update");
}

void run_accumulate(const Buffers& b, cudaStream_t stream, std::int64_t n) {
  auto* sum = b.state<float>(0);
  const auto* grad = b.in<float>(1);
  const auto* part = b.in<float>(2);
  each("accumulate", n, stream, [=] __device__(std::int64_t i) { sum[i] = part[0] == 0 ? grad[i] : sum[i] + grad[i]; });
}

void run_running(const Buffers& b, cudaStream_t stream, std::int64_t n, double momentum, double unbiased) {
  auto* running_mean = b.state<float>(0);
  auto* running_var = b.state<float>(1);
  const auto* mean = b.in<float>(2);
  const auto* var = b.in<float>(3);
  each("running_update", n, stream, [=] __device__(std::int64_t i) {
    running_mean[i] = static_cast<float>((1 - momentum) * running_mean[i] + momentum * mean[i]);
    running_var[i] = static_cast<float>((1 - momentum) * running_var[i] + momentum * unbiased * var[i]);
  });
}

}  // namespace

Prepared sgd_cuda(const OpCall& call) {
  return cuda_kernel([n = call.in(0).elements(), nesterov = call.attrs.integer("nesterov", 0) != 0](
                         const Buffers& b, cudaStream_t stream) { run_sgd(b, stream, n, nesterov); });
}

Prepared adam_cuda(const OpCall& call) {
  return cuda_kernel([n = call.in(0).elements(), decoupled = call.op->name == "adamw_update"](
                         const Buffers& b, cudaStream_t stream) { run_adam(b, stream, n, decoupled); });
}

Prepared accumulate_cuda(const OpCall& call) {
  return cuda_kernel(
      [n = call.in(0).elements()](const Buffers& b, cudaStream_t stream) { run_accumulate(b, stream, n); });
}

Prepared running_update_cuda(const OpCall& call) {
  const auto count = static_cast<double>(running_count(call.attrs));
  return cuda_kernel([n = call.in(0).elements(), momentum = call.attrs.real("momentum", 0.1),
                      unbiased = count > 1 ? count / (count - 1) : 1](const Buffers& b, cudaStream_t stream) {
    run_running(b, stream, n, momentum, unbiased);
  });
}

}  // namespace neap::ops
