// Element types of tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace neap {

enum class DType : std::uint8_t {
  kF32,
  kF16,
  kBF16,
  kI64,
  kI32,
  kI8,
  kU8,
  kU16,
  kU64,
  kBool,  // one byte, 0 or 1
  kBits,  // eight elements a byte, the first in the lowest bit; rows are not padded
  kF64,
  kI16,
  kU32,
};

std::string_view name(DType type);
std::optional<DType> parse_dtype(std::string_view text);
bool is_float(DType type);

// Bytes that `elements` elements take.
std::int64_t byte_size(DType type, std::int64_t elements);

}  // namespace neap
