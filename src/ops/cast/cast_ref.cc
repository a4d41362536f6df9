#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "neap/error.h"
#include "ops/cast/cast.h"

namespace neap::ops {
namespace {

// A value between its types: floats fit a double, integers 128 bits.
struct Wide {
  bool is_float;
  double real = 0;
  __int128 integer = 0;
};

// 1 sign bit, 15 - digits exponent bits, `digits` explicit mantissa bits.
struct SmallFloat {
  int digits;
  int bias;
};
constexpr SmallFloat kHalf = {10, 15};
constexpr SmallFloat kBrain = {7, 127};

double decode(std::uint16_t bits, SmallFloat format) {
  const int largest = (1 << (15 - format.digits)) - 1;
  const int exponent = (bits & 0x7FFF) >> format.digits;
  const int mantissa = bits & ((1 << format.digits) - 1);
  double value = exponent == 0 ? std::ldexp(mantissa, 1 - format.bias - format.digits)
                               : std::ldexp(mantissa + (1 << format.digits), exponent - format.bias - format.digits);
  if (exponent == largest) value = mantissa == 0 ? HUGE_VAL : std::nan("");
  return (bits & 0x8000) != 0 ? -value : value;
}

// nearbyint rounds to nearest even at the last digit that the format has at this size.
std::uint16_t encode(double value, SmallFloat format) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const int largest = (1 << (15 - format.digits)) - 1;
  const auto special = static_cast<std::uint16_t>(largest << format.digits);
  if (std::isnan(value)) return sign | special | static_cast<std::uint16_t>(1 << (format.digits - 1));
  const double size = std::fabs(value);
  if (size == 0) return sign;
  int exponent = 0;
  std::frexp(size, &exponent);  // size in [2^(exponent-1), 2^exponent)
  const int place = std::max(exponent - 1, 1 - format.bias) - format.digits;
  const double units = std::isinf(size) ? HUGE_VAL : std::nearbyint(std::ldexp(size, -place));
  const double limit = std::ldexp(2 - std::ldexp(1.0, -format.digits), largest - 1 - format.bias);
  if (std::ldexp(units, place) > limit) return sign | special;
  // With the hidden bit on top, the mantissa's carry and the exponent add up by themselves.
  const int biased = place + format.digits + format.bias - 1;
  return static_cast<std::uint16_t>(sign | ((biased << format.digits) + static_cast<int>(units)));
}

template <class T>
Wide integer(const std::byte* src, std::int64_t i) {
  return {.is_float = false, .integer = reinterpret_cast<const T*>(src)[i]};
}

Wide load(DType type, const std::byte* src, std::int64_t i) {
  const auto* half = reinterpret_cast<const std::uint16_t*>(src);
  switch (type) {
    case DType::kF32: return {.is_float = true, .real = reinterpret_cast<const float*>(src)[i]};
    case DType::kF16: return {.is_float = true, .real = decode(half[i], kHalf)};
    case DType::kBF16: return {.is_float = true, .real = decode(half[i], kBrain)};
    case DType::kI64: return integer<std::int64_t>(src, i);
    case DType::kI32: return integer<std::int32_t>(src, i);
    case DType::kI8: return integer<std::int8_t>(src, i);
    case DType::kU8: return integer<std::uint8_t>(src, i);
    case DType::kU16: return integer<std::uint16_t>(src, i);
    case DType::kU64: return integer<std::uint64_t>(src, i);
    case DType::kBool: return {.is_float = false, .integer = src[i] != std::byte{0} ? 1 : 0};
    case DType::kBits: return {.is_float = false, .integer = (std::to_integer<int>(src[i / 8]) >> (i % 8)) & 1};
  }
  throw InternalError("no type");
}

template <class T>
T to_integer(const Wide& w) {
  if (!w.is_float) return static_cast<T>(w.integer);
  if (std::isnan(w.real)) return 0;
  if (w.real <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  if (w.real >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  return static_cast<T>(w.real);
}

template <class T>
void put(std::byte* dst, std::int64_t i, T value) {
  reinterpret_cast<T*>(dst)[i] = value;
}

void store_bit(std::byte* dst, std::int64_t i, bool on) {
  if (i % 8 == 0) dst[i / 8] = std::byte{0};
  if (on) dst[i / 8] |= std::byte{1} << static_cast<int>(i % 8);
}

void store(DType type, std::byte* dst, std::int64_t i, const Wide& w) {
  const double real = w.is_float ? w.real : static_cast<double>(w.integer);
  const bool is_set = w.is_float ? w.real != 0 : w.integer != 0;
  switch (type) {
    // An integer goes straight to f32: by way of a double it would be rounded twice.
    case DType::kF32: return put(dst, i, w.is_float ? static_cast<float>(w.real) : static_cast<float>(w.integer));
    case DType::kF16: return put(dst, i, encode(real, kHalf));
    case DType::kBF16: return put(dst, i, encode(real, kBrain));
    case DType::kI64: return put(dst, i, to_integer<std::int64_t>(w));
    case DType::kI32: return put(dst, i, to_integer<std::int32_t>(w));
    case DType::kI8: return put(dst, i, to_integer<std::int8_t>(w));
    case DType::kU8: return put(dst, i, to_integer<std::uint8_t>(w));
    case DType::kU16: return put(dst, i, to_integer<std::uint16_t>(w));
    case DType::kU64: return put(dst, i, to_integer<std::uint64_t>(w));
    case DType::kBool: return put(dst, i, static_cast<std::uint8_t>(is_set ? 1 : 0));
    case DType::kBits: return store_bit(dst, i, is_set);
  }
}

}  // namespace

Prepared cast_ref(const OpCall& call) {
  return function_kernel(
      [from = call.in(0).dtype, to = call.outputs[0].dtype, n = call.in(0).elements()](const Buffers& b) {
        for (std::int64_t i = 0; i < n; ++i) store(to, b.out<std::byte>(0), i, load(from, b.in<std::byte>(0), i));
      });
}

}  // namespace neap::ops
