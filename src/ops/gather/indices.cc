#include "ops/gather/indices.h"

#include <fmt/format.h>

#include "neap/error.h"

namespace neap::ops {

Indices indices_of(const TensorType& type, std::int64_t bound, bool wraps) {
  return {.count = type.elements(), .bound = bound, .wide = type.dtype == DType::kI64, .wraps = wraps};
}

void check_indices(std::string_view op, const Indices& indices, const void* data) {
  const std::int64_t lowest = indices.wraps ? -indices.bound : 0;
  for (std::int64_t i = 0; i < indices.count; ++i) {
    const std::int64_t index = indices.raw(data, i);
    if (index >= lowest && index < indices.bound) continue;
    throw UserError(
        fmt::format("{}: index {} at place {} is outside of [{}, {})", op, index, i, lowest, indices.bound));
  }
}

}  // namespace neap::ops
