#include "ops/gather/rows_simd.h"

#include <omp.h>

#include "device/cpu/vmath.h"

namespace neap::NEAP_ISA_NS {
namespace {

// Columns [first, last) of one outer index.
template <class T>
void add_columns(const T* index, const float* src, float* dst, const PickShape& s, std::int64_t first,
                 std::int64_t last) {
  for (std::int64_t a = 0; a < s.axis; ++a) {
    for (std::int64_t c = first; c < last; ++c) dst[a * s.inner + c] = 0;
  }
  for (std::int64_t i = 0; i < s.picks; ++i) {
    const std::int64_t at = index[i] < 0 ? index[i] + s.axis : index[i];
    const float* from = src + i * s.inner;
    float* to = dst + at * s.inner;
    std::int64_t c = first;
    for (; c + kLanes <= last; c += kLanes) vstore(to + c, vload(to + c) + vload(from + c));
    for (; c < last; ++c) to[c] += from[c];
  }
}

// Threads share out the outer indices, or, where there are few, slices of columns.
template <class T>
void add(const T* index, const float* src, float* dst, PickShape s) {
#pragma omp parallel
  {
    const std::int64_t thread = omp_get_thread_num();
    const std::int64_t threads = omp_get_num_threads();
    if (s.outer >= threads) {
      for (std::int64_t o = s.outer * thread / threads; o < s.outer * (thread + 1) / threads; ++o) {
        add_columns(index, src + o * s.picks * s.inner, dst + o * s.axis * s.inner, s, 0, s.inner);
      }
    } else {
      constexpr std::int64_t kLine = 16;  // floats of a cache line
      const std::int64_t lines = (s.inner + kLine - 1) / kLine;
      const std::int64_t first = lines * thread / threads * kLine;
      const std::int64_t last = lines * (thread + 1) / threads * kLine;
      for (std::int64_t o = 0; o < s.outer; ++o) {
        add_columns(index, src + o * s.picks * s.inner, dst + o * s.axis * s.inner, s, first,
                    last < s.inner ? last : s.inner);
      }
    }
  }
}

}  // namespace

const RowsTable& rows_table() {
  static constexpr RowsTable kTable = {add<std::int32_t>, add<std::int64_t>};
  return kTable;
}

}  // namespace neap::NEAP_ISA_NS
