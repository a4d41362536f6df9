#include "ops/linear/linear_simd.h"

#include <omp.h>

#include "device/cpu/vmath.h"

namespace neap::NEAP_ISA_NS {
namespace {

constexpr std::int64_t kRowsAtOnce = 8;

NEAP_VM vf load_row(const float* p) { return vload(p); }
NEAP_VM vf load_row(const std::uint16_t* p) { return vload_bf16(p); }
NEAP_VM float number(float x) { return x; }
NEAP_VM float number(std::uint16_t x) { return __builtin_bit_cast(float, static_cast<std::uint32_t>(x) << 16); }

// Adds 8 rows as a tree, so that rounding grows with rows / 8.
template <class T>
NEAP_VM vf sum_of_rows(const T* x, std::int64_t stride) {
  const vf a = (load_row(x) + load_row(x + stride)) + (load_row(x + 2 * stride) + load_row(x + 3 * stride));
  x += 4 * stride;
  return a + ((load_row(x) + load_row(x + stride)) + (load_row(x + 2 * stride) + load_row(x + 3 * stride)));
}

template <class T>
NEAP_VM float sum_of_numbers(const T* p, std::int64_t stride) {
  const float a = (number(p[0]) + number(p[stride])) + (number(p[2 * stride]) + number(p[3 * stride]));
  p += 4 * stride;
  return a + ((number(p[0]) + number(p[stride])) + (number(p[2 * stride]) + number(p[3 * stride])));
}

// Columns [first, last) of all rows. The sums stay in the L1 cache while rows stream by.
template <class T>
void sum_columns(const T* x, float* sums, std::int64_t rows, std::int64_t columns, std::int64_t first,
                 std::int64_t last) {
  for (std::int64_t c = first; c < last; ++c) sums[c] = 0;
  const std::int64_t whole = first + (last - first) / kLanes * kLanes;
  std::int64_t r = 0;
  for (; r + kRowsAtOnce <= rows; r += kRowsAtOnce) {
    const T* row = x + r * columns;
    for (std::int64_t c = first; c < whole; c += kLanes) {
      vstore(sums + c, vload(sums + c) + sum_of_rows(row + c, columns));
    }
    for (std::int64_t c = whole; c < last; ++c) sums[c] += sum_of_numbers(row + c, columns);
  }
  for (; r < rows; ++r) {
    for (std::int64_t c = first; c < last; ++c) sums[c] += number(x[r * columns + c]);
  }
}

template <class T>
void column_sums(const T* x, float* sums, std::int64_t rows, std::int64_t columns) {
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
  static constexpr LinearTable kTable = {column_sums<float>, column_sums<std::uint16_t>, fill_rows};
  return kTable;
}

}  // namespace neap::NEAP_ISA_NS
