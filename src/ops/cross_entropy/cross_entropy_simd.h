#pragma once

#include <cstdint>

#include "device/cpu/isa.h"

namespace neap {

struct ClassRows {
  std::int64_t rows;
  std::int64_t classes;
  std::int64_t ignore;
  float smoothing;
  bool wide;  // targets are i64, else i32
};

// Rows are summed in this many blocks at most, in double, so that the result does not depend on the threads.
inline constexpr std::int64_t kLossBlocks = 64;

struct CrossEntropyTable {
  // sums: one a block. lse may be null.
  void (*forward)(const float* logits, const void* targets, ClassRows c, double* sums, float* lse);
  void (*backward)(const float* logits, const void* targets, const float* lse, float scale, ClassRows c, float* dx);
  // Rows whose target's logit is the largest (the first of equals).
  std::int64_t (*correct)(const float* logits, const void* targets, ClassRows c);
};
NEAP_ISA_TABLE(CrossEntropyTable, cross_entropy_table)

}  // namespace neap
