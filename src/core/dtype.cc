#include "neap/dtype.h"

#include <array>

namespace neap {
namespace {

struct Row {
  DType type;
  std::string_view name;
  int bits;
};

constexpr std::array kRows = {
    Row{DType::kF32, "f32", 32},  Row{DType::kF16, "f16", 16},  Row{DType::kBF16, "bf16", 16},
    Row{DType::kI64, "i64", 64},  Row{DType::kI32, "i32", 32},  Row{DType::kI8, "i8", 8},
    Row{DType::kU8, "u8", 8},     Row{DType::kU16, "u16", 16},  Row{DType::kU64, "u64", 64},
    Row{DType::kBool, "bool", 8}, Row{DType::kBits, "bits", 1}, Row{DType::kF64, "f64", 64},
    Row{DType::kI16, "i16", 16},  Row{DType::kU32, "u32", 32},
};

const Row& row(DType type) { return kRows[static_cast<std::size_t>(type)]; }

}  // namespace

std::string_view name(DType type) { return row(type).name; }

std::optional<DType> parse_dtype(std::string_view text) {
  for (const Row& r : kRows) {
    if (r.name == text) return r.type;
  }
  return std::nullopt;
}

bool is_float(DType type) {
  return type == DType::kF32 || type == DType::kF16 || type == DType::kBF16 || type == DType::kF64;
}

std::int64_t byte_size(DType type, std::int64_t elements) { return (elements * row(type).bits + 7) / 8; }

}  // namespace neap
