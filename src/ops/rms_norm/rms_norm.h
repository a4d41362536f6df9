#pragma once

#include "ops/kernel.h"

namespace neap::ops {

[[gnu::weak]] Prepared rms_norm_cuda(const OpCall& call);
[[gnu::weak]] Prepared rms_norm_grad_cuda(const OpCall& call);

}  // namespace neap::ops
