// The functions of vmath.h on whole arrays, one table for each instruction set, so that all of them can be tested in
// one program. Kernels include vmath.h and keep their values in registers instead.
#pragma once

#include <cstdint>

#include "device/cpu/isa.h"

namespace neap {

struct VmathTable {
  using Unary = void (*)(const float* src, float* dst, std::int64_t n);

  int lanes;
  Unary exp, log, tanh, sigmoid, erf, rsqrt, sin, cos;
  float (*sum)(const float* src, std::int64_t n);  // the lanes' partial sums are added by halves
  float (*max)(const float* src, std::int64_t n);
  void (*fma)(const float* a, const float* b, const float* c, float* dst, std::int64_t n);
  void (*nearest)(const float* src, std::int32_t* dst, std::int64_t n);
  void (*to_bf16)(const float* src, std::uint16_t* dst, std::int64_t n);
  void (*from_bf16)(const std::uint16_t* src, float* dst, std::int64_t n);
  void (*to_f16)(const float* src, std::uint16_t* dst, std::int64_t n);
  void (*from_f16)(const std::uint16_t* src, float* dst, std::int64_t n);
  // 4 * lanes * blocks words: those of counters index, index + 1, ... in the order of RandomStream, and the same
  // numbers in [0, 1).
  void (*philox)(std::uint64_t key, std::uint64_t index, std::uint64_t stream, std::uint32_t* words, float* units,
                 std::int64_t blocks);
};

NEAP_ISA_TABLE(VmathTable, vmath_table)

}  // namespace neap
