#pragma once

#include <cstdint>

#include "device/cpu/isa.h"

namespace neap {

struct PickShape {
  std::int64_t outer;
  std::int64_t axis;   // of the tensor picked from
  std::int64_t picks;  // how many
  std::int64_t inner;
};

struct RowsTable {
  // dst [outer, axis, inner] = 0; then dst[o][index[i]] += src[o][i] for i = 0, 1, 2, ... in this order, whatever the
  // threads. Indices are in range, or negative by at most `axis`.
  void (*add32)(const std::int32_t* index, const float* src, float* dst, PickShape shape);
  void (*add64)(const std::int64_t* index, const float* src, float* dst, PickShape shape);
};
NEAP_ISA_TABLE(RowsTable, rows_table)

}  // namespace neap
