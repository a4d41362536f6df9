// An array as it came out of a file, in its mapping where the file's bytes are right already.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "neap/dtype.h"

namespace neap {

struct Array {
  DType dtype = DType::kU8;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;   // C order, little-endian, aligned to nothing: read with element()
  std::shared_ptr<const void> owner;  // keeps the bytes: a mapping or a buffer

  std::int64_t elements() const;
};

template <class T>
T element(const Array& array, std::uint64_t index) {
  T value;
  std::memcpy(&value, array.bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

// An element of an integer array (bool, u8, i8, u16, i32, i64) as a number.
std::int64_t integer_at(const Array& array, std::uint64_t index);

// What an array may have at most, as numpy's.
inline constexpr std::size_t kMaxRank = 32;

// Bytes of an array with this shape. UserError with `label` (the file, and the array in it) when the shape is absurd.
std::uint64_t checked_bytes(std::span<const std::int64_t> shape, std::int64_t element_bytes, const std::string& label);

// Memory of this machine: what takes more than all of it is refused before anything is allocated.
std::uint64_t physical_bytes();

// An uninitialised buffer whose pages cost nothing until they are written. UserError when the machine has not as much.
std::shared_ptr<std::byte[]> allocate_bytes(std::uint64_t bytes, const std::string& label);

// Element types on disk that no DType holds become the next that does: i16 i32, u32 i64, f64 f32.
enum class DiskType : std::uint8_t { kBool, kU8, kI8, kU16, kI16, kU32, kI32, kI64, kF32, kF64 };

std::int64_t byte_size(DiskType type);

// The array whose elements lie in `bytes` (exactly as many as the shape needs): a view where type and byte order fit,
// converted otherwise. UserError when a number does not fit its new type.
Array make_array(DiskType type, bool big_endian, std::vector<std::int64_t> shape, std::span<const std::byte> bytes,
                 std::shared_ptr<const void> owner, const std::string& label);

}  // namespace neap
