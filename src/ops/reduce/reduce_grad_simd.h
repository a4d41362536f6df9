#pragma once

#include <cstdint>

#include "device/cpu/isa.h"
#include "ops/elementwise/broadcast_plan.h"

namespace neap {

enum class ReduceGradFn : std::uint8_t {
  kL1,         // dy sign(x)
  kL2,         // dy x / y
  kLogSumExp,  // dy e^(x - y)
  kSumSquare,  // 2 dy x
  kShare,      // dy / q where x = y: q counts the ties
  kProd,       // from p, the product of what is not 0, and q, the number of zeros
  kCount
};

struct ReduceGradTable {
  // The plan's inputs: dy, x, p, q; x has the output's shape, the others that of the reduction's result. p is y, or the
  // product; p and q may be null where the function does not use them.
  using Run = void (*)(const BroadcastPlan& plan, const float* dy, const float* x, const float* p, const float* q,
                       float* dst);
  // dst = scale * dy, repeated along the reduced axes.
  void (*spread)(const BroadcastPlan& plan, const float* dy, float scale, float* dst);
  Run run[static_cast<int>(ReduceGradFn::kCount)];
};

NEAP_ISA_TABLE(ReduceGradTable, reduce_grad_table)

}  // namespace neap
