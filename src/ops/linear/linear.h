// y = x W^T + bias over rows of the last axis.
#pragma once

#include "ops/kernel.h"

namespace neap::ops {

struct LinearShape {
  std::int64_t rows = 0, in = 0, out = 0;
  bool transposed = false;  // W is [in, out] instead of [out, in]
  bool bias = false;
};

// The shape of y for x, W and the bias, if there is one, as inputs 0 to 2, f32; UserError unless they fit each other.
Shape need_linear(const OpCall& call, bool transposed = false);

LinearShape linear_shape(const OpCall& call);
LinearShape linear_grad_shape(const OpCall& call);

[[gnu::weak]] Prepared linear_onednn(const OpCall& call);
[[gnu::weak]] Prepared linear_cuda(const OpCall& call);
[[gnu::weak]] Prepared linear_grad_cuda(const OpCall& call);
[[gnu::weak]] Prepared linear_add_cuda(const OpCall& call);
Prepared linear_own(const OpCall& call);
Prepared linear_ref(const OpCall& call);
[[gnu::weak]] Prepared linear_grad_onednn(const OpCall& call);
Prepared linear_grad_own(const OpCall& call);
Prepared linear_grad_ref(const OpCall& call);

}  // namespace neap::ops
