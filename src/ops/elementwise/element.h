// C++ types of elements, for reference kernels of types that training does not use: a kernel is a lambda over them.
#pragma once

#include <cstdint>
#include <type_traits>

#include "neap/dtype.h"
#include "neap/error.h"

namespace neap::ops {

// Floats of 16 bits. They are computed with as doubles and rounded to nearest even when they are stored.
struct F16 {
  std::uint16_t bits = 0;
  F16() = default;
  explicit F16(double value);
  operator double() const;  // NOLINT(google-explicit-constructor): a number like any other
};
struct BF16 {
  std::uint16_t bits = 0;
  BF16() = default;
  explicit BF16(double value);
  operator double() const;  // NOLINT(google-explicit-constructor)
};

// A type as an argument.
template <class T>
struct Type {};

template <class T>
inline constexpr bool kIsInteger = std::is_integral_v<T>;

// In what an element is computed with: nothing overflows, and narrowing then wraps around.
template <class T>
using Compute = std::conditional_t<kIsInteger<T>, __int128, double>;

// f(Type<T>{}) with the type of the elements. bool comes as a byte; elements of one bit have no type of their own.
template <class F>
decltype(auto) with_type(DType type, F f) {
  switch (type) {
    case DType::kF32: return f(Type<float>{});
    case DType::kF64: return f(Type<double>{});
    case DType::kF16: return f(Type<F16>{});
    case DType::kBF16: return f(Type<BF16>{});
    case DType::kI64: return f(Type<std::int64_t>{});
    case DType::kI32: return f(Type<std::int32_t>{});
    case DType::kI16: return f(Type<std::int16_t>{});
    case DType::kI8: return f(Type<std::int8_t>{});
    case DType::kU64: return f(Type<std::uint64_t>{});
    case DType::kU32: return f(Type<std::uint32_t>{});
    case DType::kU16: return f(Type<std::uint16_t>{});
    case DType::kU8:
    case DType::kBool: return f(Type<std::uint8_t>{});
    case DType::kBits: break;
  }
  throw InternalError("elements of one bit are no numbers");
}

// The same for the types of floats alone.
template <class F>
decltype(auto) with_float(DType type, F f) {
  switch (type) {
    case DType::kF64: return f(Type<double>{});
    case DType::kF16: return f(Type<F16>{});
    case DType::kBF16: return f(Type<BF16>{});
    default: return f(Type<float>{});
  }
}

// Numbers of any kind, bool and bits not among them.
inline bool is_number(DType type) { return type != DType::kBool && type != DType::kBits; }
inline bool is_integer(DType type) { return is_number(type) && !is_float(type); }

// A number as an element; a float is cut to an integer and held within its range, NaN as 0.
template <class T>
T element_of(double value);

// One element of any type but bits, as a double or (integers only) as an integer of 64 bits.
double real_at(DType type, const void* data, std::int64_t i);
std::int64_t integer_at(DType type, const void* data, std::int64_t i);
void set_real(DType type, void* data, std::int64_t i, double value);

}  // namespace neap::ops
