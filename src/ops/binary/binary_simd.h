#pragma once

#include <cstdint>

#include "device/cpu/isa.h"
#include "ops/elementwise/broadcast_plan.h"

namespace neap {

enum class BinaryFn : std::uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMin,
  kMax,
  kMod,   // the sign of the divisor
  kFmod,  // the sign of the dividend
  kPow,
  kEqual,
  kLess,
  kLessOrEqual,
  kGreater,
  kGreaterOrEqual,
  kCount
};

enum class BinaryType : std::uint8_t { kF32, kI32, kI64, kCount };

// Gradients that need three tensors: dx from dy and two of a, b, y.
enum class BinaryGradFn : std::uint8_t {
  kDivisor,   // dy, y, b: -dy y / b
  kBase,      // dy, a, b: dy b a^(b-1)
  kExponent,  // dy, a, y: dy y log a
  kMin,       // dy, a, b: dy where a is the smaller, half of it where they are equal
  kMax,
  kCount
};

struct BinaryTable {
  // Comparisons write one byte an element. Null: no such function of that type.
  using Run = void (*)(const BroadcastPlan& plan, const void* a, const void* b, void* dst);
  using Grad = void (*)(const BroadcastPlan& plan, const float* dy, const float* p, const float* q, float* dst);

  Run run[static_cast<int>(BinaryType::kCount)][static_cast<int>(BinaryFn::kCount)];
  Grad grad[static_cast<int>(BinaryGradFn::kCount)];
};

NEAP_ISA_TABLE(BinaryTable, binary_table)

}  // namespace neap
