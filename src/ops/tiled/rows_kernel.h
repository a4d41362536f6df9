#pragma once

#include "ops/kernel.h"

namespace neap::ops {

// Steps by the best kernels, by the best of our own, and by the references over all rows at once.
Prepared rows_with_libraries(const OpCall& call);
Prepared rows_own(const OpCall& call);
Prepared rows_ref(const OpCall& call);

}  // namespace neap::ops
