#pragma once

#include "ops/binary/binary_simd.h"
#include "ops/kernel.h"

namespace neap::ops {

BinaryFn binary_fn(const OpCall& call);
BinaryGradFn binary_grad_fn(const OpCall& call);

[[gnu::weak]] Prepared binary_cuda(const OpCall& call);
[[gnu::weak]] Prepared binary_grad_cuda(const OpCall& call);
Prepared binary_ref(const OpCall& call);
Prepared binary_grad_ref(const OpCall& call);

// How a gradient flows to both operands; binary_gradient.cc.
Values gradient_add(GradientCall& c);
Values gradient_sub(GradientCall& c);
Values gradient_mul(GradientCall& c);
Values gradient_div(GradientCall& c);
Values gradient_mod(GradientCall& c);
Values gradient_pow(GradientCall& c);
Values gradient_min(GradientCall& c);
Values gradient_max(GradientCall& c);

}  // namespace neap::ops
