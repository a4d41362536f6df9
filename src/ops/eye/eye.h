#pragma once

#include "ops/kernel.h"

namespace neap::ops {

// Ones on diagonal k of [rows, columns]; `one` has the bits of an element, of `bytes` bytes.
struct EyeShape {
  std::int64_t rows, columns, k;
  std::uint64_t one;
  std::int64_t bytes;
};
[[gnu::weak]] Prepared eye_cuda(const EyeShape& shape);

}  // namespace neap::ops
