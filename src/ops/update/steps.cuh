// One element's step of SGD, Adam and AdamW on CUDA: the formulas of steps.h.
#pragma once

#include <cuda_runtime.h>

namespace neap::ops {

// Betas with few decimals come back exactly, as update.cc has it.
__device__ inline double one_minus(float beta) { return 1 - rint(static_cast<double>(beta) * 1e7) / 1e7; }

// A null momentum: there is none.
__device__ inline void sgd_step(float& param, float grad, float* momentum, const float* hyper, const float* clip,
                                bool nesterov) {
  const float scale = hyper[7] * (clip != nullptr ? clip[0] : 1.0F);
  float g = grad * scale + hyper[4] * param;
  if (momentum != nullptr) {
    const float velocity = hyper[1] * *momentum + g;
    *momentum = velocity;
    g = nesterov ? g + hyper[1] * velocity : velocity;
  }
  param -= hyper[0] * g;
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
  // Four neighbours.
  __device__ void step4(float* param, const float* grad, float* m, float* v) const {
    float4 p4 = *reinterpret_cast<float4*>(param);
    const float4 g4 = *reinterpret_cast<const float4*>(grad);
    float4 m4 = *reinterpret_cast<float4*>(m);
    float4 v4 = *reinterpret_cast<float4*>(v);
    step(p4.x, g4.x, m4.x, v4.x);
    step(p4.y, g4.y, m4.y, v4.y);
    step(p4.z, g4.z, m4.z, v4.z);
    step(p4.w, g4.w, m4.w, v4.w);
    *reinterpret_cast<float4*>(param) = p4;
    *reinterpret_cast<float4*>(m) = m4;
    *reinterpret_cast<float4*>(v) = v4;
  }
};

}  // namespace neap::ops
