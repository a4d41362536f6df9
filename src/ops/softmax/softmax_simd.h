#pragma once

#include <cstdint>

#include "device/cpu/isa.h"

namespace neap {

// A tensor seen as [outer, width, inner], where `width` is the axis that counts.
struct AxisShape {
  std::int64_t outer;
  std::int64_t width;
  std::int64_t inner;
};

struct SoftmaxTable {
  void (*forward)(const float* src, float* dst, AxisShape shape);
  void (*backward)(const float* diff_dst, const float* dst, float* diff_src, AxisShape shape);
};
NEAP_ISA_TABLE(SoftmaxTable, softmax_table)

}  // namespace neap
