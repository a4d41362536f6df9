// The codec by slow and obvious loops. It shares constants with the kernels, and no code.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/random.h"
#include "precision/codec.h"
#include "precision/codec_format.h"

namespace neap::precision {
namespace {

std::uint32_t magnitude_bits(float x) { return std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFFU; }

unsigned not_finite(const float* x, std::int64_t n) {
  unsigned flags = kClean;
  for (std::int64_t i = 0; i < n; ++i) {
    if (std::isnan(x[i])) flags |= kNan;
    if (std::isinf(x[i])) flags |= kInfinite;
  }
  return flags;
}

// To nearest, ties to even, on the bits that are cut off.
std::uint16_t to_bf16(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  if (std::isnan(x)) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  const std::uint32_t cut = bits & 0xFFFFU;
  const std::uint32_t kept = bits >> 16;
  const bool up = cut > 0x8000U || (cut == 0x8000U && (kept & 1U) != 0);
  return static_cast<std::uint16_t>(kept + (up ? 1U : 0U));
}

// By the value: a normal FP16 has steps of 2^(exponent - 10), a denormal one of 2^-24.
std::uint16_t to_fp16(float x) {
  const std::uint32_t sign = std::signbit(x) ? 0x8000U : 0U;
  if (std::isnan(x)) return static_cast<std::uint16_t>(sign | 0x7E00U | ((magnitude_bits(x) >> 13) & 0x3FFU));
  if (magnitude_bits(x) >= kFp16Overflow) return static_cast<std::uint16_t>(sign | 0x7C00U);
  const double size = std::fabs(static_cast<double>(x));
  const int exponent = size == 0 ? -14 : std::max(std::ilogb(size), -14);
  const auto units = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(size, 10 - exponent)));
  // 1024 units are the hidden bit: they add 1 to the exponent's field.
  return static_cast<std::uint16_t>(sign | ((static_cast<std::uint32_t>(exponent + 14) << 10) + units));
}

float from_bf16(std::uint16_t h) { return std::bit_cast<float>(static_cast<std::uint32_t>(h) << 16); }

float from_fp16(std::uint16_t h) {
  const int exponent = (h >> 10) & 31;
  const int mantissa = h & 1023;
  if (exponent == 31) {
    const std::uint32_t quiet = mantissa != 0 ? 0x400000U : 0U;
    return std::bit_cast<float>((static_cast<std::uint32_t>(h & 0x8000U) << 16) | 0x7F800000U | quiet |
                                (static_cast<std::uint32_t>(mantissa) << 13));
  }
  const int units = mantissa + (exponent > 0 ? 1024 : 0);
  const auto size = static_cast<float>(std::ldexp(units, std::max(exponent, 1) - 25));
  return (h & 0x8000U) != 0 ? -size : size;
}

unsigned encode_half(Level level, const float* x, std::int64_t n, std::uint16_t* h) {
  std::uint32_t greatest = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    h[i] = level == Level::kBf16 ? to_bf16(x[i]) : to_fp16(x[i]);
    greatest = std::max(greatest, magnitude_bits(x[i]));
  }
  if (greatest >= 0x7F800000U) {
    const bool beyond = std::any_of(x, x + n, [&](float v) {
      return std::isfinite(v) && magnitude_bits(v) >= (level == Level::kBf16 ? kBf16Overflow : kFp16Overflow);
    });
    return not_finite(x, n) | (beyond ? kOverflow : kClean);
  }
  if (greatest >= (level == Level::kBf16 ? kBf16Overflow : kFp16Overflow)) return kOverflow;
  const bool lost = greatest != 0 && greatest < (level == Level::kBf16 ? kBf16Underflow : kFp16Underflow);
  return lost ? kUnderflow : kClean;
}

struct Grid {
  float lo = 0;
  float hi = 0;
  float scale = 0;
  float factor = 0;  // fine steps per unit
};

unsigned make_grid(Level level, const float* x, std::int64_t n, Grid& grid) {
  const unsigned bad = not_finite(x, n);
  if (bad != 0) return bad;
  const auto [least, greatest] = std::minmax_element(x, x + n);
  const float lo = *least + 0.0F;  // -0 becomes 0
  const float hi = *greatest + 0.0F;
  const float range = hi - lo;
  if (range > kMaxRange) return kOverflow;
  grid.lo = lo;
  grid.hi = hi;
  if (range == 0) return kClean;
  const float scale = range / static_cast<float>(steps(level));
  grid.scale = std::max(scale, kMinScale);
  grid.factor = kFine / grid.scale;
  return scale < kMinScale ? kUnderflow : kClean;
}

std::uint32_t random_bits(const Philox& philox, std::uint64_t group, std::int64_t e) {
  const auto place = static_cast<std::uint64_t>(e);
  const std::uint32_t word = philox(group * 16 + place % 16, kOwnStream)[place / 64];
  const std::uint32_t own = (word >> (place / 16 % 4 * 8)) & 0xFFU;
  const std::uint32_t common = philox(group / 16, kSharedStream)[group % 16 / 4];
  return (own << 8) | ((common >> (group % 4 * 8)) & 0xFFU);
}

void put(Level level, std::uint8_t* payload, std::int64_t e, std::uint32_t q) {
  const std::int64_t at = level == Level::kInt8 ? e : level == Level::kInt4 ? e / 32 * 16 + e % 16 : e / 8;
  const std::int64_t shift = level == Level::kInt8 ? 0 : level == Level::kInt4 ? e / 16 % 2 * 4 : e % 8;
  payload[at] = static_cast<std::uint8_t>(payload[at] | (q << shift));
}

std::uint32_t get(Level level, const std::uint8_t* payload, std::int64_t e) {
  if (level == Level::kInt8) return payload[e];
  if (level == Level::kInt4) return (payload[e / 32 * 16 + e % 16] >> (e / 16 % 2 * 4)) & 15U;
  return (payload[e / 8] >> (e % 8)) & 1U;
}

struct GroupCall {
  Level level;
  Rounding rounding;
  Philox philox;
  std::uint64_t group;
};

unsigned encode_group(const GroupCall& call, const float* x, std::int64_t n, std::uint8_t* payload, float* history) {
  Grid grid;
  unsigned flags = make_grid(call.level, x, n, grid);
  const float top = static_cast<float>(steps(call.level)) * kFine;
  for (std::int64_t e = 0; e < n; ++e) {
    const float fine = (x[e] - grid.lo) * grid.factor;
    const auto place = static_cast<std::uint32_t>(std::nearbyint(fine < top ? fine : top));
    const std::uint32_t add = call.rounding == Rounding::kStochastic ? random_bits(call.philox, call.group, e) : 32768U;
    put(call.level, payload, e, std::min((place + add) >> 16, static_cast<std::uint32_t>(steps(call.level))));
    if (call.level == Level::kBit && x[e] != grid.lo && x[e] != grid.hi) flags |= kInexact;
  }
  history[0] = grid.lo;
  history[1] = call.level == Level::kBit ? grid.hi : grid.scale;
  return flags;
}

}  // namespace

unsigned encode_ref(Level level, const float* src, std::int64_t elements, const CodecKey& key, std::byte* payload,
                    std::byte* history) {
  std::memset(payload, 0, static_cast<std::size_t>(payload_bytes(level, elements)));
  if (level == Level::kFp32 && elements > 0) std::memcpy(payload, src, static_cast<std::size_t>(elements) * 4);
  unsigned flags = kClean;
  for (std::int64_t first = 0; level != Level::kFp32 && first < elements; first += kGroup) {
    const std::int64_t n = std::min(kGroup, elements - first);
    std::byte* at = payload + payload_bytes(level, first);
    if (is_grouped(level)) {
      const GroupCall call = {level, key.rounding, Philox{philox_key(key)}, static_cast<std::uint64_t>(first / kGroup)};
      float parameters[2];
      flags |= encode_group(call, src + first, n, reinterpret_cast<std::uint8_t*>(at), parameters);
      std::memcpy(history + first / kGroup * 8, parameters, 8);
    } else {
      std::uint16_t halves[kGroup];
      flags |= encode_half(level, src + first, n, halves);
      std::memcpy(at, halves, static_cast<std::size_t>(n) * 2);
    }
  }
  return flags;
}

void decode_ref(Level level, const std::byte* payload, const std::byte* history, std::int64_t elements, float* dst) {
  for (std::int64_t i = 0; i < elements; ++i) {
    if (is_grouped(level)) {
      float p[2];
      std::memcpy(p, history + i / kGroup * 8, 8);
      const std::uint32_t q = get(level, reinterpret_cast<const std::uint8_t*>(payload), i);
      dst[i] = level != Level::kBit ? p[0] + static_cast<float>(q) * p[1] : p[q];
    } else if (level == Level::kFp32) {
      std::memcpy(dst + i, payload + i * 4, 4);
    } else {
      std::uint16_t half = 0;
      std::memcpy(&half, payload + i * 2, 2);
      dst[i] = level == Level::kBf16 ? from_bf16(half) : from_fp16(half);
    }
  }
}

}  // namespace neap::precision
