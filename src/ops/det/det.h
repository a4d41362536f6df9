#pragma once

#include "ops/kernel.h"

namespace neap::ops {

[[gnu::weak]] Prepared det_cuda(const OpCall& call);

}  // namespace neap::ops
