#include "train/data/array.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <new>

#include "core/bytes.h"
#include "neap/error.h"

namespace neap {
namespace {

static_assert(std::endian::native == std::endian::little, "views into files assume it");

template <class T, bool Swap>
T read(const std::byte* at) {
  std::array<std::byte, sizeof(T)> raw;
  std::memcpy(raw.data(), at, sizeof(T));
  if constexpr (Swap) std::reverse(raw.begin(), raw.end());
  return std::bit_cast<T>(raw);
}

template <class From, class To, bool Swap>
void convert(std::span<const std::byte> from, std::byte* to, const std::string& label) {
  for (std::size_t i = 0; i < from.size() / sizeof(From); ++i) {
    const From value = read<From, Swap>(from.data() + i * sizeof(From));
    if constexpr (sizeof(From) > sizeof(To)) {
      if (std::isfinite(value) && std::abs(value) > static_cast<From>(std::numeric_limits<To>::max())) {
        throw UserError(fmt::format("'{}': {} at element {} does not fit a 32-bit float", label, value, i));
      }
    }
    const To converted = static_cast<To>(value);
    std::memcpy(to + i * sizeof(To), &converted, sizeof(To));
  }
}

struct Row {
  DType type;
  std::int64_t bytes;  // on disk
  void (*swapped)(std::span<const std::byte>, std::byte*, const std::string&);
  void (*plain)(std::span<const std::byte>, std::byte*, const std::string&);  // null: a view will do
};

const Row& row(DiskType type) {
  static constexpr std::array kRows = {
      Row{DType::kBool, 1, nullptr, nullptr},
      Row{DType::kU8, 1, nullptr, nullptr},
      Row{DType::kI8, 1, nullptr, nullptr},
      Row{DType::kU16, 2, convert<std::uint16_t, std::uint16_t, true>, nullptr},
      Row{DType::kI32, 2, convert<std::int16_t, std::int32_t, true>, convert<std::int16_t, std::int32_t, false>},
      Row{DType::kI64, 4, convert<std::uint32_t, std::int64_t, true>, convert<std::uint32_t, std::int64_t, false>},
      Row{DType::kI32, 4, convert<std::int32_t, std::int32_t, true>, nullptr},
      Row{DType::kI64, 8, convert<std::int64_t, std::int64_t, true>, nullptr},
      Row{DType::kF32, 4, convert<float, float, true>, nullptr},
      Row{DType::kF32, 8, convert<double, float, true>, convert<double, float, false>},
  };
  return kRows[static_cast<std::size_t>(type)];
}

}  // namespace

std::int64_t Array::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) product *= size;
  return product;
}

std::int64_t integer_at(const Array& array, std::uint64_t index) {
  switch (array.dtype) {
    case DType::kBool:
    case DType::kU8: return element<std::uint8_t>(array, index);
    case DType::kI8: return element<std::int8_t>(array, index);
    case DType::kU16: return element<std::uint16_t>(array, index);
    case DType::kI32: return element<std::int32_t>(array, index);
    case DType::kI64: return element<std::int64_t>(array, index);
    default: throw InternalError(fmt::format("an array of {} holds no integers", name(array.dtype)));
  }
}

std::uint64_t checked_bytes(std::span<const std::int64_t> shape, std::int64_t element_bytes, const std::string& label) {
  if (shape.size() > kMaxRank) throw UserError(fmt::format("'{}' has {} dimensions", label, shape.size()));
  // Zeros are left out of the product, so that no later dimension can hide behind one.
  std::int64_t bytes = element_bytes;
  bool empty = false;
  for (const std::int64_t size : shape) {
    empty = empty || size == 0;
    if (size < 0 || (size > 0 && __builtin_mul_overflow(bytes, size, &bytes))) {
      throw UserError(fmt::format("'{}' has a shape too large for any memory", label));
    }
  }
  return empty ? 0 : static_cast<std::uint64_t>(bytes);
}

std::uint64_t physical_bytes() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::shared_ptr<std::byte[]> allocate_bytes(std::uint64_t bytes, const std::string& label) {
  try {
    if (bytes > physical_bytes()) throw std::bad_alloc();
    return std::shared_ptr<std::byte[]>(new std::byte[bytes]);
  } catch (const std::bad_alloc&) {
    throw UserError(fmt::format("'{}' needs {} of memory, more than this machine has", label,
                                human_bytes(static_cast<std::int64_t>(std::min<std::uint64_t>(bytes, 1ULL << 62)))));
  }
}

std::int64_t byte_size(DiskType type) { return row(type).bytes; }

Array make_array(DiskType type, bool big_endian, std::vector<std::int64_t> shape, std::span<const std::byte> bytes,
                 std::shared_ptr<const void> owner, const std::string& label) {
  const Row& r = row(type);
  Array array{r.type, std::move(shape), bytes, std::move(owner)};
  auto* const conversion = big_endian ? r.swapped : r.plain;
  if (conversion == nullptr) return array;
  const auto size = static_cast<std::uint64_t>(byte_size(r.type, array.elements()));
  const std::shared_ptr<std::byte[]> buffer = allocate_bytes(size, label);
  conversion(bytes, buffer.get(), label);
  array.bytes = {buffer.get(), size};
  array.owner = buffer;
  return array;
}

}  // namespace neap
