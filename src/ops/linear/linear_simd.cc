#include "ops/linear/linear_simd.h"

#include <omp.h>

#include "device/cpu/vmath.h"

namespace neap::NEAP_ISA_NS {
namespace {

constexpr std::int64_t kRowsAtOnce = 8;

// Adds 8 rows as a tree, so that rounding grows with rows / 8.
NEAP_VM vf sum_of_rows(const float* x, std::int64_t stride) {
  const vf a = (vload(x) + vload(x + stride)) + (vload(x + 2 * stride) + vload(x + 3 * stride));
  x += 4 * stride;
  return a + ((vload(x) + vload(x + stride)) + (vload(x + 2 * stride) + vload(x + 3 * stride)));
}

// Columns [first, last) of all rows. The sums stay in the L1 cache while rows stream by.
void sum_columns(const float* x, float* sums, std::int64_t rows, std::int64_t columns, std::int64_t first,
                 std::int64_t last) {
  for (std::int64_t c = first; c < last; ++c) sums[c] = 0;
  const std::int64_t whole = first + (last - first) / kLanes * kLanes;
  std::int64_t r = 0;
  for (; r + kRowsAtOnce <= rows; r += kRowsAtOnce) {
    const float* row = x + r * columns;
    for (std::int64_t c = first; c < whole; c += kLanes) {
      vstore(sums + c, vload(sums + c) + sum_of_rows(row + c, columns));
    }
    for (std::int64_t c = whole; c < last; ++c) {
      const float* p = row + c;
      const float a = (p[0] + p[columns]) + (p[2 * columns] + p[3 * columns]);
      p += 4 * columns;
      sums[c] += a + ((p[0] + p[columns]) + (p[2 * columns] + p[3 * columns]));
    }
  }
  for (; r < rows; ++r) {
    for (std::int64_t c = first; c < last; ++c) sums[c] += x[r * columns + c];
  }
}

void column_sums(const float* x, float* sums, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kSlice = 64;  // columns: four cache lines
  const std::int64_t slices = (columns + kSlice - 1) / kSlice;
#pragma omp parallel
  {
    const std::int64_t thread = omp_get_thread_num();
    const std::int64_t threads = omp_get_num_threads();
    const std::int64_t first = slices * thread / threads * kSlice;
    const std::int64_t last = slices * (thread + 1) / threads * kSlice;
    sum_columns(x, sums, rows, columns, first, last < columns ? last : columns);
  }
}

void fill_rows(const float* row, float* y, std::int64_t rows, std::int64_t columns) {
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) y[r * columns + c] = row[c];
  }
}

}  // namespace

const LinearTable& linear_table() {
  static constexpr LinearTable kTable = {column_sums, fill_rows};
  return kTable;
}

}  // namespace neap::NEAP_ISA_NS
