#pragma once

#include <cstdint>

#include "device/cpu/isa.h"

namespace neap {

// Losses that are a sum of f(x, y) over elements. d = x - y.
enum class PointLoss : std::uint8_t {
  kSquare,    // d^2
  kAbsolute,  // |d|
  kSmooth,    // |d| < beta: d^2 / (2 beta), else |d| - beta / 2
  kLogistic,  // max(x, 0) - x y + log(1 + e^-|x|)
};
inline constexpr int kPointLosses = 4;

// Elements are summed in blocks of this many, and the blocks in double, one after the other.
inline constexpr std::int64_t kPointBlock = 4096;

struct PointwiseTable {
  using Forward = void (*)(const float* x, const float* y, std::int64_t n, float beta, double* sums);
  // scale * df/dx (wrt = 0) or scale * df/dy (wrt = 1)
  using Backward = void (*)(const float* x, const float* y, std::int64_t n, float beta, float scale, bool by_y,
                            float* out);
  Forward forward[kPointLosses];
  Backward backward[kPointLosses];
};
NEAP_ISA_TABLE(PointwiseTable, pointwise_table)

}  // namespace neap
