#pragma once

#include "ops/kernel.h"
#include "ops/prelu/prelu_simd.h"

namespace neap::ops {

[[gnu::weak]] Prepared prelu_cuda(const BroadcastPlan& plan, PreluFn fn, const PreluArgs& args);

}  // namespace neap::ops
