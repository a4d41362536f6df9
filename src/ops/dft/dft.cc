// dft(x [..., 1 or 2]; axis = -2, length, inverse = 0, onesided = 0) -> y [..., 2]: the discrete Fourier transform
// along `axis` (any but the last, which holds real and imaginary part; 1: real numbers). The axis is cut or padded with
// zeros to `length` (its own when missing). The inverse divides by the length. onesided keeps the first length / 2 + 1
// results. Floats, summed in double term by term; no gradient.
#include "ops/dft/dft.h"

#include "ops/elementwise/element.h"
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

Prepared ref(const OpCall& call) {
  return with_float(call.in(0).dtype, [&]<class T>(Type<T>) {
    return function_kernel([t = transform_of(call)](const Buffers& b) {
#pragma omp parallel for schedule(static)
      for (std::int64_t i = 0; i < t.outer * t.out * t.inner; ++i) {
        const std::int64_t line = i / (t.out * t.inner) * t.inner + i % t.inner;
        const Complex y = t.result(b.in<T>(0), line, i / t.inner % t.out);
        b.out<T>(0)[2 * i] = static_cast<T>(y.re);
        b.out<T>(0)[2 * i + 1] = static_cast<T>(y.im);
      }
    });
  });
}

constexpr KernelEntry kKernels[] = {{"cuda", DeviceKind::kCuda, dft_cuda}, {"ref", DeviceKind::kCpu, ref}};

}  // namespace

Transform transform_of(const OpCall& call) {
  const int axis = axis_in(call);
  const Shape& x = call.shape(0);
  Transform t{.in = x.size(axis),
              .length = call.attrs.integer("length", x.size(axis)),
              .out = call.outputs[0].shape.size(axis),
              .parts = x.size(-1),
              .inverse = call.attrs.integer("inverse", 0) != 0};
  for (int i = 0; i + 1 < x.rank(); ++i) {
    if (i != axis) (i < axis ? t.outer : t.inner) *= x.size(i);
  }
  return t;
}

extern constinit const OpDef dft = {
    .name = "dft", .infer = infer, .kernels = kKernels, .kernel_count = std::size(kKernels)};

}  // namespace neap::ops
