#include "device/cuda/launch.cuh"
#include "ops/cuda_kernel.h"
#include "ops/shape_util/lines_cuda.h"

namespace neap::ops {
namespace {

__host__ __device__ std::int64_t lines_of(const LineShape& s) { return s.outer * s.inner; }
__device__ std::int64_t first_of(const LineShape& s, std::int64_t line) {
  return line / s.inner * s.length * s.inner + line % s.inner;
}

template <class T>
Prepared triangle(std::int64_t elements, std::int64_t rows, std::int64_t columns, std::int64_t k, bool upper) {
  return cuda_kernel([=](const Buffers& b, cudaStream_t stream) {
    const auto* x = b.in<T>(0);
    auto* y = b.out<T>(0);
    each("trilu", elements, stream, [=] __device__(std::int64_t i) {
      const std::int64_t row = i / columns % rows;
      const std::int64_t column = i % columns;
      const bool stays = upper ? column >= row + k : column <= row + k;
      y[i] = stays ? x[i] : T{0};
    });
  });
}

void run_cumsum(const Buffers& b, cudaStream_t stream, const LineShape& s, bool exclusive, bool reverse) {
  const auto* x = b.in<float>(0);
  auto* y = b.out<float>(0);
  each("cumsum", lines_of(s), stream, [=] __device__(std::int64_t line) {
    const std::int64_t first = first_of(s, line);
    double sum = 0;
    for (std::int64_t t = 0; t < s.length; ++t) {
      const std::int64_t at = first + (reverse ? s.length - 1 - t : t) * s.inner;
      const double next = sum + x[at];
      y[at] = static_cast<float>(exclusive ? sum : next);
      sum = next;
    }
  });
}

}  // namespace

Prepared cumsum_cuda(const LineShape& line, bool exclusive, bool reverse) {
  return cuda_kernel([s = line, exclusive, reverse](const Buffers& b, cudaStream_t stream) {
    run_cumsum(b, stream, s, exclusive, reverse);
  });
}

namespace {

void run_hardmax(const Buffers& b, cudaStream_t stream, const LineShape& s) {
  if (s.length == 0) return;
  const auto* x = b.in<float>(0);
  auto* y = b.out<float>(0);
  each("hardmax", lines_of(s), stream, [=] __device__(std::int64_t line) {
    const std::int64_t first = first_of(s, line);
    std::int64_t best = 0;
    for (std::int64_t t = 1; t < s.length; ++t) {
      if (x[first + t * s.inner] > x[first + best * s.inner]) best = t;
    }
    for (std::int64_t t = 0; t < s.length; ++t) y[first + t * s.inner] = t == best ? 1 : 0;
  });
}

}  // namespace

Prepared hardmax_cuda(const LineShape& line) {
  return cuda_kernel([s = line](const Buffers& b, cudaStream_t stream) { run_hardmax(b, stream, s); });
}

namespace {

void run_one_hot(const Buffers& b, cudaStream_t stream, const LineShape& s, bool wide, float on, float off) {
  const void* indices = b.in<void>(0);
  auto* y = b.out<float>(0);
  each("one_hot", lines_of(s) * s.length, stream, [=] __device__(std::int64_t i) {
    const std::int64_t line = i / (s.length * s.inner) * s.inner + i % s.inner;
    std::int64_t index =
        wide ? static_cast<const std::int64_t*>(indices)[line] : static_cast<const std::int32_t*>(indices)[line];
    if (index < 0) index += s.length;
    y[i] = i / s.inner % s.length == index ? on : off;
  });
}

}  // namespace

Prepared one_hot_cuda(const LineShape& line, bool wide, float on, float off) {
  return cuda_kernel(
      [s = line, wide, on, off](const Buffers& b, cudaStream_t stream) { run_one_hot(b, stream, s, wide, on, off); });
}

Prepared trilu_cuda(std::int64_t elements, std::int64_t rows, std::int64_t columns, std::int64_t k, bool upper,
                    std::int64_t bytes) {
  switch (bytes) {
    case 1: return triangle<std::uint8_t>(elements, rows, columns, k, upper);
    case 2: return triangle<std::uint16_t>(elements, rows, columns, k, upper);
    case 4: return triangle<std::uint32_t>(elements, rows, columns, k, upper);
    default: return triangle<std::uint64_t>(elements, rows, columns, k, upper);
  }
}

}  // namespace neap::ops
