#pragma once

#include <cstdint>

#include "device/cpu/isa.h"

namespace neap {

// A tensor as outer x length x inner, searched along its length.
struct ArgLine {
  std::int64_t outer;
  std::int64_t length;
  std::int64_t inner;
};

struct ArgmaxTable {
  void (*max)(const float* src, std::int64_t* dst, ArgLine line);
  void (*min)(const float* src, std::int64_t* dst, ArgLine line);
};

NEAP_ISA_TABLE(ArgmaxTable, argmax_table)

}  // namespace neap
