// Tensors of indices, and the rule for indices out of range: a UserError, before anything is read or written.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/op.h"

namespace neap::ops {

// i32 or i64; negative indices count from the end where the op allows them.
struct Indices {
  std::int64_t count = 0;
  std::int64_t bound = 0;  // valid: [0, bound), and [-bound, 0) if `wraps`
  bool wide = false;
  bool wraps = true;

  std::int64_t raw(const void* data, std::int64_t i) const {
    return wide ? static_cast<const std::int64_t*>(data)[i] : static_cast<const std::int32_t*>(data)[i];
  }
  std::int64_t at(const void* data, std::int64_t i) const {
    const std::int64_t index = raw(data, i);
    return index < 0 ? index + bound : index;
  }
};

Indices indices_of(const TensorType& type, std::int64_t bound, bool wraps = true);

// UserError names the op, the index and its place.
void check_indices(std::string_view op, const Indices& indices, const void* data);

}  // namespace neap::ops
