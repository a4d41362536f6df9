// Resizing of [outer, h, w, inner], vectorised over `inner`.
#pragma once

#include <cstdint>

#include "device/cpu/isa.h"

namespace neap {

// Output o is the sum over t in [begin[o], begin[o + 1]) of weight[t] * input[index[t]].
struct ResizeAxis {
  std::int64_t in;
  std::int64_t out;
  const std::int32_t* begin;
  const std::int32_t* index;
  const float* weight;
  const std::uint8_t* outside;  // [out]: 1 where the output is the extrapolation value
};

struct ResizeShape {
  std::int64_t outer;
  ResizeAxis h;
  ResizeAxis w;
  std::int64_t inner;
  float extrapolation;
};

struct ResizeTable {
  void (*run)(const ResizeShape& s, const float* x, float* y);
};
NEAP_ISA_TABLE(ResizeTable, resize_table)

}  // namespace neap
