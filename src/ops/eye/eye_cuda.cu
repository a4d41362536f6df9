#include "device/cuda/launch.cuh"
#include "ops/cuda_kernel.h"
#include "ops/eye/eye.h"

namespace neap::ops {
namespace {

template <class T>
void run(const Buffers& b, cudaStream_t stream, const EyeShape& s) {
  auto* y = b.out<T>(0);
  each("eye", s.rows * s.columns, stream, [=] __device__(std::int64_t i) {
    const std::int64_t row = i / s.columns;
    const std::int64_t column = i - row * s.columns;
    y[i] = column - row == s.k ? static_cast<T>(s.one) : T{0};
  });
}

}  // namespace

Prepared eye_cuda(const EyeShape& shape) {
  return cuda_kernel([s = shape](const Buffers& b, cudaStream_t stream) {
    switch (s.bytes) {
      case 1: return run<std::uint8_t>(b, stream, s);
      case 2: return run<std::uint16_t>(b, stream, s);
      case 4: return run<std::uint32_t>(b, stream, s);
      default: return run<std::uint64_t>(b, stream, s);
    }
  });
}

}  // namespace neap::ops
