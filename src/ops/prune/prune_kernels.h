#pragma once

#include "ops/kernel.h"

namespace neap::ops {

[[gnu::weak]] Prepared prune_cuda(const OpCall& call);
[[gnu::weak]] Prepared prune_update_cuda(const OpCall& call);

}  // namespace neap::ops
