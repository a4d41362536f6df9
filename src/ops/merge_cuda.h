// What the rules of merging on CUDA share.
#pragma once

#include <algorithm>
#include <string_view>

#include "device/cuda/cuda.h"
#include "ops/merge.h"

namespace neap::ops {

// Not of a view, which has no operands.
inline bool is_call_of(const BoundCall& c, std::string_view op) {
  return c.call.op->name == op && !c.call.inputs.empty();
}

// All operands begin at multiples of 16 bytes, as vectors need.
inline bool are_aligned(const BoundCall& c) {
  const auto is_aligned = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; };
  return std::all_of(c.buffers.inputs.begin(), c.buffers.inputs.end(), is_aligned) &&
         std::all_of(c.buffers.outputs.begin(), c.buffers.outputs.end(), is_aligned);
}

extern const MergeRule kSumThenNorm, kNormGradThenSum, kCasts, kAdamSteps;

}  // namespace neap::ops
