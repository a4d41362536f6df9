#pragma once

#include "ops/kernel.h"

namespace neap::ops {

[[gnu::weak]] Prepared cast_cuda(const OpCall& call);
Prepared cast_ref(const OpCall& call);

}  // namespace neap::ops
