// Copies between strided layouts: what transpose, slice, split, concat, expand and tile are made of.
#pragma once

#include <cstdint>

#include "device/cpu/isa.h"

namespace neap {

// dst[dst_offset + sum i_a * dst[a]] = src[src_offset + sum i_a * src[a]] for all i_a < size[a]; outermost axis first,
// strides and offsets in elements. A source stride of 0 repeats.
struct StridedCopy {
  static constexpr int kMaxRank = 16;
  int element_bytes = 4;  // 1, 2, 4 or 8
  int rank = 0;
  std::int64_t size[kMaxRank] = {};
  std::int64_t src[kMaxRank] = {};
  std::int64_t dst[kMaxRank] = {};
  std::int64_t src_offset = 0;
  std::int64_t dst_offset = 0;
};

// All of them take a copy that merged() has simplified; no element of dst is written twice.
struct StridedTable {
  void (*copy)(const StridedCopy& c, const void* src, void* dst);
  void (*zero)(const StridedCopy& c, void* dst);                    // dst = 0; the source side is ignored
  void (*add)(const StridedCopy& c, const float* src, float* dst);  // dst += src
};
NEAP_ISA_TABLE(StridedTable, strided_table)

}  // namespace neap
