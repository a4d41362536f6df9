#pragma once

#include "ops/kernel.h"
#include "ops/unary/unary_simd.h"

namespace neap::ops {

// The function that a call of an op, or of its gradient, means.
struct UnaryCall {
  UnaryFn fn;
  UnaryArgs args;
};
UnaryCall unary_call(const OpCall& call);

[[gnu::weak]] Prepared unary_cuda(const OpCall& call);
[[gnu::weak]] Prepared unary_grad_cuda(const OpCall& call);
Prepared unary_ref(const OpCall& call);
Prepared unary_grad_ref(const OpCall& call);

}  // namespace neap::ops
