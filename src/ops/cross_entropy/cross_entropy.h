#pragma once

#include "ops/cross_entropy/classes.h"

namespace neap::ops {

Prepared cross_entropy_ref(const OpCall& call);
Prepared cross_entropy_grad_ref(const OpCall& call);
Prepared correct_count_ref(const OpCall& call);

}  // namespace neap::ops
