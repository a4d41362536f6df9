#pragma once

#include <cstdint>

#include "device/cpu/isa.h"

namespace neap {

struct FmaTable {
  // Runs `rounds` rounds of independent multiply-adds on this thread; returns their number in `count`.
  float (*run)(std::int64_t rounds, double* count);
};
NEAP_ISA_TABLE(FmaTable, fma_table)

}  // namespace neap
