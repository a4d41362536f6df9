#pragma once

#include "ops/kernel.h"

namespace neap::ops {

[[gnu::weak]] Prepared where_cuda(const OpCall& call);

}  // namespace neap::ops
