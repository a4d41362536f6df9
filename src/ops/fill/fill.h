#pragma once

#include "ops/kernel.h"

namespace neap::ops {

// Element i is start + i * delta.
[[gnu::weak]] Prepared ramp_cuda(const TensorType& type, double start, double delta);

}  // namespace neap::ops
