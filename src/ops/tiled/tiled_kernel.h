#pragma once

#include "ops/kernel.h"

namespace neap::ops {

// Steps by the best kernels, by the best of our own, and by the references over all rows at once.
Prepared tiled_with_libraries(const OpCall& call);
Prepared tiled_own(const OpCall& call);
Prepared tiled_ref(const OpCall& call);
// One kernel compiled at run time; the ops' own kernels one after the other.
[[gnu::weak]] Prepared fused_generated_cuda(const OpCall& call);
[[gnu::weak]] Prepared fused_steps_cuda(const OpCall& call);

}  // namespace neap::ops
