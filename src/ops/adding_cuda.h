// Where a kernel adds to a sum that it is given, in place or not.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/cuda/cuda.h"

namespace neap::ops {

// The sum lies where the result will: in place nothing is copied.
inline void start_from_cuda(const float* sum, float* out, std::int64_t n, cudaStream_t stream) {
  if (sum == out) return;
  const auto bytes = static_cast<std::size_t>(n) * sizeof(float);
  NEAP_CHECK_CUDA(cudaMemcpyAsync(out, sum, bytes, cudaMemcpyDeviceToDevice, stream));
}

// out = more, of bf16, [+ sum]; sum may be null, or `out` itself.
void add_widened_cuda(const float* sum, const std::byte* more, float* out, std::int64_t n, cudaStream_t stream);

}  // namespace neap::ops
