#pragma once

#include <cstdint>

#include "device/cpu/isa.h"

namespace neap {

// A tensor seen as rows of its last axis.
struct RowShape {
  std::int64_t rows;
  std::int64_t width;
};

struct SoftmaxTable {
  void (*forward)(const float* src, float* dst, RowShape shape);
  void (*backward)(const float* diff_dst, const float* dst, float* diff_src, RowShape shape);
};
NEAP_ISA_TABLE(SoftmaxTable, softmax_table)

}  // namespace neap
