#pragma once

#include <cstdint>

#include "device/cpu/isa.h"

namespace neap {

struct DropoutArgs {
  std::uint64_t key;    // of Philox
  std::uint64_t index;  // of the first element in the whole batch
  float p;              // an element is dropped when its number in [0, 1) is below
  float scale;          // of what remains
};

struct DropoutTable {
  void (*run)(const float* src, float* dst, std::int64_t n, DropoutArgs args);
};

NEAP_ISA_TABLE(DropoutTable, dropout_table)

}  // namespace neap
