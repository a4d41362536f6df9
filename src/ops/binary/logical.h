// Ops on truth values: and, or, xor, not; and tests of floats that give one.
#pragma once

#include "ops/kernel.h"

namespace neap::ops {

[[gnu::weak]] Prepared logical_cuda(const OpCall& call);
[[gnu::weak]] Prepared predicate_cuda(const OpCall& call);

}  // namespace neap::ops
