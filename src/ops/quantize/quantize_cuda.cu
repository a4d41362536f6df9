// Quantization element by element. Floats are divided and multiplied as floats, which gives what the reference gives in
// double: a quotient of floats and a product of 24 by 17 bits round there once.
#include <limits>

#include "device/cuda/launch.cuh"
#include "ops/cuda_kernel.h"
#include "ops/quantize/quantize.h"

namespace neap::ops {
namespace {

// x / scale in units, halves to even.
__device__ float units(float x, float scale) { return rintf(x / scale); }
__device__ double units(std::int32_t x, float scale) { return rint(static_cast<double>(x) / scale); }

// Held within the range of Y; NaN is 0.
template <class Y, class T>
__device__ Y held(T value) {
  constexpr int kLow = std::numeric_limits<Y>::min();
  constexpr int kHigh = std::numeric_limits<Y>::max();
  if (value != value) return 0;
  if (value <= kLow) return kLow;
  if (value >= kHigh) return kHigh;
  return static_cast<Y>(value);
}

template <class X, class Y>
void run_quantize(const Buffers& b, cudaStream_t stream, const Scales& s) {
  const auto* x = b.in<X>(0);
  const auto* scale = b.in<float>(1);
  const auto* zero = b.in<Y>(2);
  auto* y = b.out<Y>(0);
  each("quantize_linear", s.n, stream, [=] __device__(std::int64_t i) {
    const std::int64_t k = s.at(i);
    y[i] = held<Y>(units(x[i], scale[k]) + (zero != nullptr ? zero[k] : 0));
  });
}

template <class X>
Prepared quantize_from(const OpCall& call) {
  const Scales scales = scales_of(call);
  switch (call.outputs[0].dtype) {
    case DType::kU8:
      return cuda_kernel(
          [s = scales](const Buffers& b, cudaStream_t stream) { run_quantize<X, std::uint8_t>(b, stream, s); });
    case DType::kI8:
      return cuda_kernel(
          [s = scales](const Buffers& b, cudaStream_t stream) { run_quantize<X, std::int8_t>(b, stream, s); });
    case DType::kU16:
      return cuda_kernel(
          [s = scales](const Buffers& b, cudaStream_t stream) { run_quantize<X, std::uint16_t>(b, stream, s); });
    default:
      return cuda_kernel(
          [s = scales](const Buffers& b, cudaStream_t stream) { run_quantize<X, std::int16_t>(b, stream, s); });
  }
}

template <class X>
__device__ float restored(X x, X zero, float scale) {
  if constexpr (sizeof(X) < sizeof(std::int32_t)) return static_cast<float>(x - zero) * scale;
  return static_cast<float>((static_cast<double>(x) - static_cast<double>(zero)) * scale);
}

template <class X>
void run_dequantize(const Buffers& b, cudaStream_t stream, const Scales& s) {
  const auto* x = b.in<X>(0);
  const auto* scale = b.in<float>(1);
  const auto* zero = b.in<X>(2);
  auto* y = b.out<float>(0);
  each("dequantize_linear", s.n, stream, [=] __device__(std::int64_t i) {
    const std::int64_t k = s.at(i);
    y[i] = restored<X>(x[i], zero != nullptr ? zero[k] : X{0}, scale[k]);
  });
}

template <class X>
Prepared dequantize_from(const OpCall& call) {
  return cuda_kernel([s = scales_of(call)](const Buffers& b, cudaStream_t stream) { run_dequantize<X>(b, stream, s); });
}

constexpr const char* kScales = "scales of f32 only";

}  // namespace

Prepared quantize_cuda(const OpCall& call) {
  if (call.in(1).dtype != DType::kF32) return Declined{kScales};
  switch (call.in(0).dtype) {
    case DType::kF32: return quantize_from<float>(call);
    case DType::kI32: return quantize_from<std::int32_t>(call);
    default: return Declined{"f32 and i32 only"};
  }
}

Prepared dequantize_cuda(const OpCall& call) {
  if (call.in(1).dtype != DType::kF32) return Declined{kScales};
  switch (call.in(0).dtype) {
    case DType::kU8: return dequantize_from<std::uint8_t>(call);
    case DType::kI8: return dequantize_from<std::int8_t>(call);
    case DType::kU16: return dequantize_from<std::uint16_t>(call);
    case DType::kI16: return dequantize_from<std::int16_t>(call);
    default: return dequantize_from<std::int32_t>(call);
  }
}

}  // namespace neap::ops
