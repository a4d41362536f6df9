#pragma once

#include "ops/kernel.h"

namespace neap::ops {

Prepared cast_ref(const OpCall& call);

}  // namespace neap::ops
