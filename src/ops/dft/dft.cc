// dft(x [..., 1 or 2]; axis = -2, length, inverse = 0, onesided = 0) -> y [..., 2]: the discrete Fourier transform
// along `axis` (any but the last, which holds real and imaginary part; 1: real numbers). The axis is cut or padded with
// zeros to `length` (its own when missing). The inverse divides by the length. onesided keeps the first length / 2 + 1
// results. Floats, summed in double term by term; no gradient.
#include <cmath>
#include <numbers>

#include "ops/elementwise/element.h"
#include "ops/kernel.h"
#include "ops/matmul/checks.h"
#include "ops/shape_util/axes.h"

namespace neap::ops {
namespace {

int axis_in(const OpCall& call) {
  const int rank = call.shape(0).rank();
  const int axis = axis_of(call.attrs.integer("axis", -2), rank);
  need(axis + 1 < rank, "the last axis holds real and imaginary part");
  return axis;
}

Types infer(const OpCall& call) {
  const Shape& x = call.shape(0);
  need(is_float(call.in(0).dtype), "takes floats");
  need(x.rank() >= 2 && (x[-1] == Dim(1) || x[-1] == Dim(2)), "takes [..., n, 1] or [..., n, 2]");
  const int axis = axis_in(call);
  Shape y = x;
  if (call.attrs.has("length")) y[axis] = call.attrs.integer("length");
  const Dim length = y[axis];
  need(!length.is_number() || (length.number() >= 1 && length.number() < (1 << 30)), "length must be positive");
  if (call.attrs.integer("onesided", 0) != 0)
    y[axis] = length.is_number() ? Dim(length.number() / 2 + 1) : Dim::unknown();
  y[-1] = 2;
  return {{call.in(0).dtype, y}};
}

struct Transform {
  std::int64_t outer = 1, in = 1, inner = 1, length = 1, out = 1, parts = 1;
  bool inverse = false;

  explicit Transform(const OpCall& call)
      : parts(call.shape(0).size(-1)), inverse(call.attrs.integer("inverse", 0) != 0) {
    const int axis = axis_in(call);
    const Shape& x = call.shape(0);
    in = x.size(axis);
    length = call.attrs.integer("length", in);
    out = call.outputs[0].shape.size(axis);
    for (int i = 0; i + 1 < x.rank(); ++i) {
      if (i != axis) (i < axis ? outer : inner) *= x.size(i);
    }
  }

  // Result k of a line that starts at x.
  template <class T>
  void value(const T* x, std::int64_t k, double& real, double& imaginary) const {
    real = imaginary = 0;
    for (std::int64_t t = 0; t < std::min(in, length); ++t) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(k * t % length) / static_cast<double>(length);
      const double c = std::cos(angle);
      const double s = inverse ? std::sin(angle) : -std::sin(angle);
      const double re = x[t * inner * parts];
      const double im = parts == 2 ? static_cast<double>(x[t * inner * parts + 1]) : 0;
      real += re * c - im * s;
      imaginary += re * s + im * c;
    }
    const double scale = inverse ? 1 / static_cast<double>(length) : 1;
    real *= scale;
    imaginary *= scale;
  }
};

Prepared ref(const OpCall& call) {
  return with_float(call.in(0).dtype, [&]<class T>(Type<T>) {
    return function_kernel([t = Transform(call)](const Buffers& b) {
#pragma omp parallel for schedule(static)
      for (std::int64_t i = 0; i < t.outer * t.out * t.inner; ++i) {
        const std::int64_t line = i / (t.out * t.inner);
        const T* x = b.in<T>(0) + (line * t.in * t.inner + i % t.inner) * t.parts;
        double real = 0;
        double imaginary = 0;
        t.value(x, i / t.inner % t.out, real, imaginary);
        b.out<T>(0)[2 * i] = static_cast<T>(real);
        b.out<T>(0)[2 * i + 1] = static_cast<T>(imaginary);
      }
    });
  });
}

constexpr KernelEntry kKernels[] = {{"ref", DeviceKind::kCpu, ref}};

}  // namespace

extern constinit const OpDef dft = {
    .name = "dft", .infer = infer, .kernels = kKernels, .kernel_count = std::size(kKernels)};

}  // namespace neap::ops
