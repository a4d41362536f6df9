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
    if (hyper[7] == 0) return;  // put off
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

// What all elements share is computed once a thread.
struct Adam {
  float beta1, beta2, rest1, rest2, rate, keep, decay, over_root2, epsilon, scale;

  __device__ Adam(const float* hyper, const float* clip, bool decoupled) {
    const double lr = hyper[0];
    beta1 = hyper[1];
    beta2 = hyper[2];
    rest1 = static_cast<float>(one_minus(hyper[1]));
    rest2 = static_cast<float>(one_minus(hyper[2]));
    rate = static_cast<float>(lr / hyper[5]);
    keep = decoupled ? static_cast<float>(1 - lr * hyper[4]) : 1.0F;
    decay = decoupled ? 0.0F : hyper[4];
    over_root2 = 1.0F / sqrtf(hyper[6]);
    epsilon = hyper[3];
    scale = hyper[7] * (clip != nullptr ? clip[0] : 1.0F);
  }
  __device__ void step(float& param, float grad, float& m, float& v) const {
    const float gradient = grad * scale + decay * param;
    m = beta1 * m + rest1 * gradient;
    v = beta2 * v + rest2 * gradient * gradient;
    param = param * keep - rate * (m / (sqrtf(v) * over_root2 + epsilon));
  }
};

__global__ void __launch_bounds__(kThreads)
    adam_kernel(std::int64_t n, float* param, const float* grad, float* m, float* v, const float* hyper,
                const float* clip, bool decoupled, bool by_vector) {
  if (hyper[7] == 0) return;  // put off
  const Adam adam(hyper, clip, decoupled);
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t whole = by_vector ? n / 4 : 0;
  for (std::int64_t i = first; i < whole; i += stride) {
    float4 p4 = reinterpret_cast<float4*>(param)[i];
    const float4 g4 = reinterpret_cast<const float4*>(grad)[i];
    float4 m4 = reinterpret_cast<float4*>(m)[i];
    float4 v4 = reinterpret_cast<float4*>(v)[i];
    adam.step(p4.x, g4.x, m4.x, v4.x);
    adam.step(p4.y, g4.y, m4.y, v4.y);
    adam.step(p4.z, g4.z, m4.z, v4.z);
    adam.step(p4.w, g4.w, m4.w, v4.w);
    reinterpret_cast<float4*>(param)[i] = p4;
    reinterpret_cast<float4*>(m)[i] = m4;
    reinterpret_cast<float4*>(v)[i] = v4;
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
