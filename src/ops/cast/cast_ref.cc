#include <cstdint>

#include "neap/error.h"
#include "ops/cast/cast.h"
#include "ops/elementwise/element.h"

namespace neap::ops {
namespace {

// A value between its types: floats fit a double, integers 128 bits.
struct Wide {
  bool is_float;
  double real = 0;
  __int128 integer = 0;
};

template <class T>
Wide integer(const std::byte* src, std::int64_t i) {
  return {.is_float = false, .integer = reinterpret_cast<const T*>(src)[i]};
}

Wide load(DType type, const std::byte* src, std::int64_t i) {
  switch (type) {
    case DType::kF32: return {.is_float = true, .real = reinterpret_cast<const float*>(src)[i]};
    case DType::kF64: return {.is_float = true, .real = reinterpret_cast<const double*>(src)[i]};
    case DType::kF16: return {.is_float = true, .real = reinterpret_cast<const F16*>(src)[i]};
    case DType::kBF16: return {.is_float = true, .real = reinterpret_cast<const BF16*>(src)[i]};
    case DType::kI64: return integer<std::int64_t>(src, i);
    case DType::kI32: return integer<std::int32_t>(src, i);
    case DType::kI16: return integer<std::int16_t>(src, i);
    case DType::kI8: return integer<std::int8_t>(src, i);
    case DType::kU8: return integer<std::uint8_t>(src, i);
    case DType::kU16: return integer<std::uint16_t>(src, i);
    case DType::kU32: return integer<std::uint32_t>(src, i);
    case DType::kU64: return integer<std::uint64_t>(src, i);
    case DType::kBool: return {.is_float = false, .integer = src[i] != std::byte{0} ? 1 : 0};
    case DType::kBits: return {.is_float = false, .integer = (std::to_integer<int>(src[i / 8]) >> (i % 8)) & 1};
  }
  throw InternalError("no type");
}

template <class T>
T to_integer(const Wide& w) {
  if (!w.is_float) return static_cast<T>(w.integer);
  return element_of<T>(w.real);
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
    case DType::kF64: return put(dst, i, real);
    case DType::kF16: return put(dst, i, F16(real));
    case DType::kBF16: return put(dst, i, BF16(real));
    case DType::kI64: return put(dst, i, to_integer<std::int64_t>(w));
    case DType::kI32: return put(dst, i, to_integer<std::int32_t>(w));
    case DType::kI16: return put(dst, i, to_integer<std::int16_t>(w));
    case DType::kI8: return put(dst, i, to_integer<std::int8_t>(w));
    case DType::kU8: return put(dst, i, to_integer<std::uint8_t>(w));
    case DType::kU16: return put(dst, i, to_integer<std::uint16_t>(w));
    case DType::kU32: return put(dst, i, to_integer<std::uint32_t>(w));
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
