#pragma once

#include "ops/kernel.h"
#include "ops/softmax/softmax_simd.h"

namespace neap::ops {

// Of attribute "axis" (default: the last). UserError when there is no such axis.
AxisShape axis_shape(const OpCall& call);

// f32 with at least one axis, and an axis that is there.
Types infer_along_axis(const OpCall& call);

[[gnu::weak]] Prepared softmax_cuda(const OpCall& call);
[[gnu::weak]] Prepared softmax_grad_cuda(const OpCall& call);
[[gnu::weak]] Prepared log_softmax_cuda(const OpCall& call);
[[gnu::weak]] Prepared log_softmax_grad_cuda(const OpCall& call);
Prepared softmax_ref(const OpCall& call);
Prepared softmax_grad_ref(const OpCall& call);

}  // namespace neap::ops
