// A linear layer with gelu (by tanh) behind it, and the gradient of the pair the other way round.
#pragma once

#include "ops/kernel.h"

namespace neap::ops {

// rows x in times in x out.
struct LinearGeluShape {
  std::int64_t rows = 0, in = 0, out = 0;
  bool bias = false;
};
LinearGeluShape linear_gelu_shape(const OpCall& call);

// dy [rows, out] w [out, in].
struct GeluLinearGradShape {
  std::int64_t rows = 0, in = 0, out = 0;
  bool more = false;  // there are outputs behind dh
};
GeluLinearGradShape gelu_linear_grad_shape(const OpCall& call);

[[gnu::weak]] Prepared linear_gelu_epilogue(const OpCall& call);
[[gnu::weak]] Prepared linear_gelu_cuda(const OpCall& call);
Prepared linear_gelu_ref(const OpCall& call);
[[gnu::weak]] Prepared gelu_linear_grad_epilogue(const OpCall& call);
[[gnu::weak]] Prepared gelu_linear_grad_cuda(const OpCall& call);
Prepared gelu_linear_grad_ref(const OpCall& call);

}  // namespace neap::ops
