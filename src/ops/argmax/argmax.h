#pragma once

#include "ops/argmax/argmax_simd.h"
#include "ops/kernel.h"

namespace neap::ops {

// Of f32.
[[gnu::weak]] Prepared argmax_cuda(const ArgLine& line, bool is_max, bool takes_last);

}  // namespace neap::ops
