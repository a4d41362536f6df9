#include "ops/elementwise/element.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace neap::ops {
namespace {

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

}  // namespace

F16::F16(double value) : bits(encode(value, kHalf)) {}
F16::operator double() const { return decode(bits, kHalf); }
BF16::BF16(double value) : bits(encode(value, kBrain)) {}
BF16::operator double() const { return decode(bits, kBrain); }

template <class T>
T element_of(double value) {
  if constexpr (kIsInteger<T>) {
    if (std::isnan(value)) return 0;
    if (value <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
    if (value >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  }
  return static_cast<T>(value);
}
template float element_of<float>(double);
template double element_of<double>(double);
template F16 element_of<F16>(double);
template BF16 element_of<BF16>(double);
template std::int64_t element_of<std::int64_t>(double);
template std::int32_t element_of<std::int32_t>(double);
template std::int16_t element_of<std::int16_t>(double);
template std::int8_t element_of<std::int8_t>(double);
template std::uint64_t element_of<std::uint64_t>(double);
template std::uint32_t element_of<std::uint32_t>(double);
template std::uint16_t element_of<std::uint16_t>(double);
template std::uint8_t element_of<std::uint8_t>(double);

double real_at(DType type, const void* data, std::int64_t i) {
  return with_type(type, [&]<class T>(Type<T>) { return static_cast<double>(static_cast<const T*>(data)[i]); });
}

std::int64_t integer_at(DType type, const void* data, std::int64_t i) {
  return with_type(type, [&]<class T>(Type<T>) {
    if constexpr (kIsInteger<T>) return static_cast<std::int64_t>(static_cast<const T*>(data)[i]);
    return element_of<std::int64_t>(static_cast<double>(static_cast<const T*>(data)[i]));
  });
}

void set_real(DType type, void* data, std::int64_t i, double value) {
  if (type == DType::kBool) value = value != 0 ? 1 : 0;
  with_type(type, [&]<class T>(Type<T>) { static_cast<T*>(data)[i] = element_of<T>(value); });
}

}  // namespace neap::ops
