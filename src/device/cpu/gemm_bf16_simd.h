// Products of bf16 of gemm.h, on the calling thread: operands are copied as pairs along k.
#pragma once

#include "device/cpu/gemm.h"
#include "device/cpu/isa.h"

namespace neap {

// Null where the build has no such instructions.
struct GemmBf16Table {
  void (*pack_b)(const GemmOperand& b, std::int64_t k, std::int64_t n, float* packed);
  void (*packed)(const GemmShape& shape, const GemmOperand& a, const float* packed, const GemmOutput& c);
  void (*plain)(const GemmShape& shape, const GemmOperand& a, const GemmOperand& b, const GemmOutput& c,
                float* scratch);
};

NEAP_ISA_TABLE(GemmBf16Table, gemm_bf16_table)

}  // namespace neap
