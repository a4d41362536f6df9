// The formulas of update_simd.cc; what hyper holds is read on the device.
#include "device/cuda/launch.cuh"
#include "ops/cuda_kernel.h"
#include "ops/update/update.h"

namespace neap::ops {
namespace {

// Betas with few decimals come back exactly, as update.cc has it.
__device__ double one_minus(float beta) { return 1 - rint(static_cast<double>(beta) * 1e7) / 1e7; }

void run_sgd(const Buffers& b, cudaStream_t stream, std::int64_t n, bool nesterov) {
  auto* param = b.state<float>(0);
  const auto* grad = b.in<float>(1);
  auto* momentum = b.state<float>(2);
  const auto* hyper = b.in<float>(3);
  const auto* clip = b.in<float>(4);
  each("sgd_update", n, stream, [=] __device__(std::int64_t i) {
    const float scale = hyper[7] * (clip != nullptr ? clip[0] : 1.0F);
    float g = grad[i] * scale + hyper[4] * param[i];
    if (momentum != nullptr) {
      const float velocity = hyper[1] * momentum[i] + g;
      momentum[i] = velocity;
      g = nesterov ? g + hyper[1] * velocity : velocity;
    }
    param[i] -= hyper[0] * g;
  });
}

void run_adam(const Buffers& b, cudaStream_t stream, std::int64_t n, bool decoupled) {
  auto* param = b.state<float>(0);
  const auto* grad = b.in<float>(1);
  auto* m = b.state<float>(2);
  auto* v = b.state<float>(3);
  const auto* hyper = b.in<float>(4);
  const auto* clip = b.in<float>(5);
  each("adam_update", n, stream, [=] __device__(std::int64_t i) {
    const double lr = hyper[0];
    const auto rate = static_cast<float>(lr / hyper[5]);
    const float keep = decoupled ? static_cast<float>(1 - lr * hyper[4]) : 1.0F;
    const float decay = decoupled ? 0.0F : hyper[4];
    const auto rest1 = static_cast<float>(one_minus(hyper[1]));
    const auto rest2 = static_cast<float>(one_minus(hyper[2]));
    const float over_root2 = 1.0F / sqrtf(hyper[6]);
    const float scale = hyper[7] * (clip != nullptr ? clip[0] : 1.0F);
    const float gradient = grad[i] * scale + decay * param[i];
    const float m1 = hyper[1] * m[i] + rest1 * gradient;
    const float v1 = hyper[2] * v[i] + rest2 * gradient * gradient;
    m[i] = m1;
    v[i] = v1;
    param[i] = param[i] * keep - rate * (m1 / (sqrtf(v1) * over_root2 + hyper[3]));
  });
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

Prepared running_update_cuda(const OpCall& call) {
  const auto count = static_cast<double>(running_count(call.attrs));
  return cuda_kernel([n = call.in(0).elements(), momentum = call.attrs.real("momentum", 0.1),
                      unbiased = count > 1 ? count / (count - 1) : 1](const Buffers& b, cudaStream_t stream) {
    run_running(b, stream, n, momentum, unbiased);
  });
}

}  // namespace neap::ops
