#pragma once

#include <cstdint>

#include "device/cpu/isa.h"
#include "ops/reduce/reduce_plan.h"

namespace neap {

enum class ReduceFn : std::uint8_t {
  kSum,
  kMean,
  kL1,
  kL2,
  kSumSquare,
  kProd,
  kMax,
  kMin,
  kLogSumExp,        // about `centre`: log(sum e^(x - centre)) + centre
  kTies,             // how many equal `centre`
  kZeros,            // how many are 0
  kProdWithoutZero,  // of those that are not 0
  kCount
};

struct ReduceTable {
  // Accumulates in double. `centre`, of the result's shape, may be `dst` itself; null where it is not used.
  using Run = void (*)(const ReducePlan& plan, const float* src, const float* centre, float* dst, double* workspace);
  Run run[static_cast<int>(ReduceFn::kCount)];
};

NEAP_ISA_TABLE(ReduceTable, reduce_table)

}  // namespace neap
