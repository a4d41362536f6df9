#include "device/cuda/launch.cuh"
#include "ops/cuda_kernel.h"
#include "ops/fill/fill.h"

namespace neap::ops {
namespace {

template <class T>
void run(T* y, std::int64_t n, double start, double delta, cudaStream_t stream) {
  each("ramp", n, stream,
       [=] __device__(std::int64_t i) { y[i] = static_cast<T>(start + static_cast<double>(i) * delta); });
}

}  // namespace

Prepared ramp_cuda(const TensorType& type, double start, double delta) {
  const bool fits =
      type.dtype == DType::kF32 || type.dtype == DType::kI32 || type.dtype == DType::kI64 || type.dtype == DType::kBool;
  if (!fits) return Declined{"f32, i32, i64 and bool only"};
  return cuda_kernel([dtype = type.dtype, n = type.elements(), start, delta](const Buffers& b, cudaStream_t stream) {
    switch (dtype) {
      case DType::kF32: return run(b.out<float>(0), n, start, delta, stream);
      case DType::kI32: return run(b.out<std::int32_t>(0), n, start, delta, stream);
      case DType::kI64: return run(b.out<std::int64_t>(0), n, start, delta, stream);
      default: return run(b.out<std::uint8_t>(0), n, start != 0 ? 1.0 : 0.0, delta, stream);
    }
  });
}

}  // namespace neap::ops
