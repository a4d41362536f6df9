#pragma once

#include "ops/kernel.h"

namespace neap::ops {

// What ends a sequence that is shorter than its batch: this token, to which this target belongs.
constexpr std::int32_t kPaddingToken = 0;
constexpr std::int32_t kPaddingTarget = -100;

[[gnu::weak]] Prepared padding_mask_cuda(const OpCall& call);

}  // namespace neap::ops
