// Where ops have kernels, linked or not.
#pragma once

#include <algorithm>

#include "ops/kernel.h"

namespace neap {

inline bool has_kernel(const OpDef& op, DeviceKind device) {
  return std::any_of(op.kernels, op.kernels + op.kernel_count,
                     [&](const KernelEntry& each) { return each.device == device; });
}

}  // namespace neap
