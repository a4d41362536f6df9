// Part of codec_cuda.cu: random blocks, and floats as 16 bits and back.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "precision/codec.h"
#include "precision/codec_format.h"

namespace neap::precision {

struct Draw {
  std::uint64_t key;
  bool is_stochastic;

  // Philox 4x32-10 for counter (index, stream), as in core/random.h.
  __device__ uint4 block(std::uint64_t index, std::uint64_t stream) const {
    uint4 c = {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
               static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)};
    std::uint32_t k0 = static_cast<std::uint32_t>(key);
    std::uint32_t k1 = static_cast<std::uint32_t>(key >> 32);
#pragma unroll
    for (int round = 0; round < 10; ++round) {
      const std::uint32_t a_high = __umulhi(0xD2511F53U, c.x);
      const std::uint32_t a_low = 0xD2511F53U * c.x;
      const std::uint32_t b_high = __umulhi(0xCD9E8D57U, c.z);
      const std::uint32_t b_low = 0xCD9E8D57U * c.z;
      c = {b_high ^ c.y ^ k0, b_low, a_high ^ c.w ^ k1, a_low};
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
    return c;
  }
};

// What is wrong with values of a group of which something is. `limit`: |x| as bits from which on a finite one
// overflows.
template <int kCount>
__device__ unsigned classify(const float (&x)[kCount], std::uint32_t limit) {
  unsigned flags = 0;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const std::uint32_t bits = __float_as_uint(x[i]) & 0x7FFFFFFFU;
    flags |= bits > 0x7F800000U ? kNan : bits == 0x7F800000U ? kInfinite : bits >= limit ? kOverflow : 0U;
  }
  return flags;
}
template <int kCount>
__device__ unsigned not_finite(const float (&x)[kCount]) {
  return classify(x, 0x7F800000U);
}

// NaN keeps its upper bits, which the hardware's conversions do not.
struct Fp16 {
  static constexpr std::uint32_t kOver = kFp16Overflow;
  static constexpr std::uint32_t kUnder = kFp16Underflow;
  __device__ static std::uint16_t from(float x) {
    const std::uint32_t bits = __float_as_uint(x);
    if (x != x) {
      return static_cast<std::uint16_t>(((bits >> 16) & 0x8000U) | 0x7E00U | (((bits & 0x7FFFFFFFU) >> 13) & 0x3FFU));
    }
    return __half_as_ushort(__float2half_rn(x));
  }
  __device__ static float to(std::uint32_t h) {
    if ((h & 0x7FFFU) > 0x7C00U) return __uint_as_float(((h & 0x8000U) << 16) | 0x7FC00000U | ((h & 0x3FFU) << 13));
    return __half2float(__ushort_as_half(static_cast<std::uint16_t>(h)));
  }
};

struct Bf16Bits {
  static constexpr std::uint32_t kOver = kBf16Overflow;
  static constexpr std::uint32_t kUnder = kBf16Underflow;
  __device__ static std::uint16_t from(float x) {
    const std::uint32_t bits = __float_as_uint(x);
    if (x != x) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
    return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
  }
  __device__ static float to(std::uint32_t h) { return __uint_as_float(h << 16); }
};

}  // namespace neap::precision
