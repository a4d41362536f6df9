#pragma once

#include "ops/kernel.h"
#include "ops/update/update_simd.h"

namespace neap::ops {

// What the tensor `hyper`, f32[8], holds: lr, momentum or beta1, beta2, eps, weight decay, 1 - beta1^t, 1 - beta2^t,
// scale of the gradient. A scale of 0 leaves everything as it is: the batch has parts to come. `clip` is null or
// {scale, ...}.
inline bool is_put_off(const float* hyper) { return hyper[7] == 0; }
SgdStep sgd_step(const float* hyper, const float* clip, bool nesterov);
AdamStep adam_step(const float* hyper, const float* clip, bool decoupled);

[[gnu::weak]] Prepared sgd_cuda(const OpCall& call);
[[gnu::weak]] Prepared adam_cuda(const OpCall& call);
[[gnu::weak]] Prepared accumulate_cuda(const OpCall& call);
[[gnu::weak]] Prepared running_update_cuda(const OpCall& call);
// One element, in double. A null momentum: there is none.
void sgd_ref_step(float& param, double grad, float* momentum, const float* hyper, const float* clip, bool nesterov);
void adam_ref_step(float& param, double grad, float& mean, float& square, const float* hyper, const float* clip,
                   bool decoupled);
Prepared sgd_ref(const OpCall& call);
Prepared adam_ref(const OpCall& call);

// Elements a channel, from running_update's attribute `count`.
std::int64_t running_count(const Attrs& attrs);

}  // namespace neap::ops
