#pragma once

#include <cstdint>

#include "device/cpu/isa.h"
#include "ops/elementwise/broadcast_plan.h"

namespace neap {

enum class PreluFn : std::uint8_t {
  kPrelu,       // x, slope
  kPreluGrad,   // dy, x, slope
  kSlopeGrad,   // dy, x
  kShrink,      // x
  kShrinkGrad,  // dy, x
  kCount
};

struct PreluArgs {
  float bias = 0;
  float lambd = 0.5F;
};

struct PreluTable {
  // The first input has the output's shape; inputs that a function does not read are not looked at.
  using Run = void (*)(const BroadcastPlan& plan, const float* a, const float* b, const float* c, float* dst,
                       PreluArgs args);
  Run run[static_cast<int>(PreluFn::kCount)];
};

NEAP_ISA_TABLE(PreluTable, prelu_table)

}  // namespace neap
