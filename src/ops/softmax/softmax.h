#pragma once

#include "ops/kernel.h"
#include "ops/softmax/softmax_simd.h"

namespace neap::ops {

RowShape row_shape(const Shape& shape);

Prepared softmax_ref(const OpCall& call);
Prepared softmax_grad_ref(const OpCall& call);

}  // namespace neap::ops
