#include "ops/sparse/sparse.h"

namespace neap::ops {

Prepared sparse_ref(const SparseLayer& s) {
  return function_kernel([s](const Buffers& b) {
    const SparseWeight& w = s.weight;
    for (std::int64_t r = 0; r < s.rows; ++r) {
      const float* x = b.in<float>(0) + r * w.in;
      for (std::int64_t o = 0; o < w.out; ++o) {
        double sum = s.bias ? b.in<float>(3)[o] : 0.0;
        const std::int64_t lane = o % SparseWeight::kLanes;
        for (std::int64_t g = 0; g < w.groups(); ++g) {
          for (std::int64_t i = 0; i < w.kept; ++i) {
            const std::int64_t v = w.vector(o / SparseWeight::kLanes, g, i);
            const auto at = static_cast<std::int64_t>(b.in<std::uint64_t>(2)[v] >> SparseWeight::bit(lane) & 15U);
            const double value = b.in<float>(1)[v * SparseWeight::kLanes + lane];
            sum += value * x[g * SparseWeight::kGroup + at];
          }
        }
        b.out<float>(0)[r * w.out + o] = static_cast<float>(sum);
      }
    }
  });
}

Prepared listed_ref(const ListedLayer& s) {
  return function_kernel([s](const Buffers& b) {
    for (std::int64_t r = 0; r < s.rows; ++r) {
      const float* x = b.in<float>(0) + r * s.in;
      for (std::int64_t o = 0; o < s.out; ++o) {
        double sum = s.bias ? b.in<float>(4)[o] : 0.0;
        for (std::int32_t n = b.in<std::int32_t>(3)[o]; n < b.in<std::int32_t>(3)[o + 1]; ++n) {
          sum += static_cast<double>(b.in<float>(1)[n]) * x[b.in<std::uint16_t>(2)[n]];
        }
        b.out<float>(0)[r * s.out + o] = static_cast<float>(sum);
      }
    }
  });
}

}  // namespace neap::ops
