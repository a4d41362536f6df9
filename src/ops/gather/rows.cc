#include "ops/gather/rows.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace neap::ops {

Prepared pick_rows(const RowPick& pick, std::size_t data, std::size_t index) {
  return function_kernel([p = pick, data, index](const Buffers& b) {
    const void* indices = b.in<void>(index);
    check_indices(p.op, p.indices, indices);
    const std::int64_t bytes = p.shape.inner * p.element_bytes;
    if (bytes == 0) return;
    const auto* src = b.in<std::byte>(data);
    auto* dst = b.out<std::byte>(0);
#pragma omp parallel for schedule(static)
    for (std::int64_t t = 0; t < p.shape.outer * p.shape.picks; ++t) {
      const std::int64_t row = t / p.shape.picks * p.shape.axis + p.indices.at(indices, t % p.shape.picks);
      std::memcpy(dst + t * bytes, src + row * bytes, static_cast<std::size_t>(bytes));
    }
  });
}

Prepared pick_rows_ref(const RowPick& pick, std::size_t data, std::size_t index) {
  return function_kernel([p = pick, data, index](const Buffers& b) {
    check_indices(p.op, p.indices, b.in<void>(index));
    const std::int64_t bytes = p.shape.inner * p.element_bytes;
    auto* dst = b.out<std::byte>(0);
    for (std::int64_t o = 0; o < p.shape.outer; ++o) {
      for (std::int64_t i = 0; i < p.shape.picks; ++i) {
        const std::int64_t row = o * p.shape.axis + p.indices.at(b.in<void>(index), i);
        for (std::int64_t e = 0; e < bytes; ++e) *dst++ = b.in<std::byte>(data)[row * bytes + e];
      }
    }
  });
}

Prepared add_rows(const RowPick& pick) {
  return function_kernel([p = pick](const Buffers& b) {
    check_indices(p.op, p.indices, b.in<void>(0));
    if (p.indices.wide) {
      rows_table().add64(b.in<std::int64_t>(0), b.in<float>(1), b.out<float>(0), p.shape);
    } else {
      rows_table().add32(b.in<std::int32_t>(0), b.in<float>(1), b.out<float>(0), p.shape);
    }
  });
}

Prepared add_rows_ref(const RowPick& pick) {
  return function_kernel([p = pick](const Buffers& b) {
    check_indices(p.op, p.indices, b.in<void>(0));
    const PickShape& s = p.shape;
    std::vector<double> sums(static_cast<std::size_t>(s.outer * s.axis * s.inner));
    for (std::int64_t o = 0; o < s.outer; ++o) {
      for (std::int64_t i = 0; i < s.picks; ++i) {
        const std::int64_t row = o * s.axis + p.indices.at(b.in<void>(0), i);
        for (std::int64_t c = 0; c < s.inner; ++c) {
          sums[static_cast<std::size_t>(row * s.inner + c)] += b.in<float>(1)[(o * s.picks + i) * s.inner + c];
        }
      }
    }
    std::copy(sums.begin(), sums.end(), b.out<float>(0));
  });
}

}  // namespace neap::ops
