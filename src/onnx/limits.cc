#include "onnx/limits.h"

#include <fmt/format.h>

#include <algorithm>

#include "neap/error.h"

namespace neap::onnx {

void check_size(const TensorType& type) {
  if (type.shape.rank() > kMaxRank) {
    throw UserError(fmt::format("a tensor of rank {}: at most {} is supported", type.shape.rank(), kMaxRank));
  }
  std::int64_t elements = 1;  // with axes of 0 taken as 1, so that no product of some of the axes overflows either
  for (const Dim& d : type.shape) {
    const bool is_too_large = __builtin_mul_overflow(elements, std::max<std::int64_t>(d.number(), 1), &elements) ||
                              byte_size(type.dtype, std::min(elements, kMaxTensor + 1)) > kMaxTensor;
    if (is_too_large) throw UserError(fmt::format("a tensor of {} is too large", type.text()));
  }
}

}  // namespace neap::onnx
