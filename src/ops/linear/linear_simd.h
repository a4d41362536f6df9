#pragma once

#include <cstdint>

#include "device/cpu/isa.h"

namespace neap {

struct LinearTable {
  // sums[c] = sum over rows of x[row][c]; one order of additions for each column, whatever the number of threads.
  void (*column_sums)(const float* x, float* sums, std::int64_t rows, std::int64_t columns);
  void (*column_sums_bf16)(const std::uint16_t* x, float* sums, std::int64_t rows, std::int64_t columns);
  // Every row of y becomes `row`.
  void (*fill_rows)(const float* row, float* y, std::int64_t rows, std::int64_t columns);
};
NEAP_ISA_TABLE(LinearTable, linear_table)

}  // namespace neap
