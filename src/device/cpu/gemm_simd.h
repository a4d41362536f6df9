// The part of gemm.h that is compiled for each instruction set; all of it runs on the calling thread.
#pragma once

#include "device/cpu/gemm.h"
#include "device/cpu/isa.h"

namespace neap {

// B is packed and used in blocks of at most this many rows (k) and columns: 512 KiB, half of a common L2 cache.
inline constexpr std::int64_t kGemmBlockK = 768;
inline constexpr std::int64_t kGemmBlockN = 256;

struct GemmTable {
  void (*pack_b)(const GemmOperand& b, std::int64_t k, std::int64_t n, float* packed);
  void (*packed)(const GemmShape& shape, const GemmOperand& a, const float* packed, const GemmOutput& c, float alpha);
  // scratch: a packed B of min(k, kGemmBlockK) rows and min(n, kGemmBlockN) columns.
  void (*plain)(const GemmShape& shape, const GemmOperand& a, const GemmOperand& b, const GemmOutput& c, float* scratch,
                float alpha);
};

NEAP_ISA_TABLE(GemmTable, gemm_table)

}  // namespace neap
