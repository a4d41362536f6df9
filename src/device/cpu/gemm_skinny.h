// Part of gemm_simd.cc: the product of up to three rows of A with a B that is read once, along its rows, at the speed
// of memory. The sums stay in C, which such rows leave in the cache.
#pragma once

#include "device/cpu/gemm_pack.h"

namespace neap::NEAP_ISA_NS {
namespace {

constexpr int kSkinnyRows = 3;
// Rows of B read side by side: each needs a register for every row of A.
#if defined(__AVX512F__)
constexpr int kSkinnyDepth = 8;
#else
constexpr int kSkinnyDepth = 4;
#endif

// Rows [p, p + kDepth) of B, in all columns.
template <int kRows, int kDepth>
inline void add_rows_of_b(const GemmShape& shape, const GemmOperand& a, const GemmOperand& b, std::int64_t p,
                          const GemmOutput& c, float alpha) {
  vf x[kRows][kDepth];
  for (int i = 0; i < kRows; ++i) {
    for (int d = 0; d < kDepth; ++d) x[i][d] = vset(*corner(a, i, p + d).data * alpha);
  }
  const float* from = b.data + p * b.ld;
  const auto columns = [&](std::int64_t j, auto load, auto store) __attribute__((always_inline)) {
    vf sum[kRows];
    for (int i = 0; i < kRows; ++i) sum[i] = c.accumulate ? load(c.data + i * c.ld + j) : vf{};
#pragma GCC unroll 8
    for (int d = 0; d < kDepth; ++d) {
      const vf row = load(from + d * b.ld + j);
      for (int i = 0; i < kRows; ++i) sum[i] = vfma(x[i][d], row, sum[i]);
    }
    for (int i = 0; i < kRows; ++i) store(c.data + i * c.ld + j, sum[i]);
  };
  std::int64_t j = 0;
  for (; j + kLanes <= shape.n; j += kLanes) {
    columns(
        j, [](const float* at) { return vload(at); }, [](float* at, vf v) { vstore(at, v); });
  }
  const std::int64_t left = shape.n - j;
  if (left > 0) {
    columns(
        j, [left](const float* at) { return vload_n(at, left); }, [left](float* at, vf v) { vstore_n(at, v, left); });
  }
}

template <int kRows>
inline void multiply_rows(const GemmShape& shape, const GemmOperand& a, const GemmOperand& b, GemmOutput c,
                          float alpha) {
  std::int64_t p = 0;
  for (; p + kSkinnyDepth <= shape.k; p += kSkinnyDepth, c.accumulate = true) {
    add_rows_of_b<kRows, kSkinnyDepth>(shape, a, b, p, c, alpha);
  }
  for (; p < shape.k; ++p, c.accumulate = true) add_rows_of_b<kRows, 1>(shape, a, b, p, c, alpha);
}

// m <= kSkinnyRows, B not transposed.
inline void multiply_skinny(const GemmShape& shape, const GemmOperand& a, const GemmOperand& b, const GemmOutput& c,
                            float alpha) {
  switch (shape.m) {
    case 1: return multiply_rows<1>(shape, a, b, c, alpha);
    case 2: return multiply_rows<2>(shape, a, b, c, alpha);
    default: return multiply_rows<3>(shape, a, b, c, alpha);
  }
}

}  // namespace
}  // namespace neap::NEAP_ISA_NS
