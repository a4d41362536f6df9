// Sums, differences and products of two tensors of one shape, each f32 or bf16, computed in f32.
#pragma once

#include <cstdint>

#include "device/cpu/isa.h"

namespace neap {

struct MixedOperand {
  const void* at;
  bool is_narrow;  // bf16
};

struct BinaryMixedTable {
  using Run = void (*)(MixedOperand a, MixedOperand b, void* dst, bool narrow, std::int64_t n);
  Run add, sub, mul;
};

NEAP_ISA_TABLE(BinaryMixedTable, binary_mixed_table)

}  // namespace neap
