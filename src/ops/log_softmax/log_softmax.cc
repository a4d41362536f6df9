// log_softmax(x; axis = -1) and its gradient.
#include <algorithm>
#include <cmath>

#include "ops/log_softmax/log_softmax_simd.h"
#include "ops/softmax/softmax.h"

namespace neap::ops {
namespace {

// dx = dy - e^y * sum(dy). Reads y only.
Values gradient(GradientCall& c) { return {c.g("log_softmax_grad", {c.dy[0], c.y(0)}, c.node.attrs)}; }

Prepared simd(const OpCall& call) {
  return function_kernel(
      [s = axis_shape(call)](const Buffers& b) { log_softmax_table().forward(b.in<float>(0), b.out<float>(0), s); });
}

Prepared simd_grad(const OpCall& call) {
  return function_kernel([s = axis_shape(call)](const Buffers& b) {
    log_softmax_table().backward(b.in<float>(0), b.in<float>(1), b.out<float>(0), s);
  });
}

Prepared ref(const OpCall& call) {
  return function_kernel([s = axis_shape(call)](const Buffers& b) {
    for (std::int64_t r = 0; r < s.outer * s.inner; ++r) {
      const std::int64_t first = r / s.inner * s.width * s.inner + r % s.inner;
      const float* x = b.in<float>(0) + first;
      double top = x[0];
      for (std::int64_t i = 1; i < s.width; ++i) top = std::max(top, static_cast<double>(x[i * s.inner]));
      double sum = 0;
      for (std::int64_t i = 0; i < s.width; ++i) sum += std::exp(x[i * s.inner] - top);
      for (std::int64_t i = 0; i < s.width; ++i) {
        b.out<float>(0)[first + i * s.inner] = static_cast<float>(x[i * s.inner] - top - std::log(sum));
      }
    }
  });
}

Prepared ref_grad(const OpCall& call) {
  return function_kernel([s = axis_shape(call)](const Buffers& b) {
    for (std::int64_t r = 0; r < s.outer * s.inner; ++r) {
      const std::int64_t first = r / s.inner * s.width * s.inner + r % s.inner;
      const float* dy = b.in<float>(0) + first;
      const float* y = b.in<float>(1) + first;
      double sum = 0;
      for (std::int64_t i = 0; i < s.width; ++i) sum += dy[i * s.inner];
      for (std::int64_t i = 0; i < s.width; ++i) {
        const double p = std::exp(static_cast<double>(y[i * s.inner]));
        b.out<float>(0)[first + i * s.inner] = static_cast<float>(dy[i * s.inner] - p * sum);
      }
    }
  });
}

double flops(const OpCall& call) { return 12.0 * static_cast<double>(call.in(0).elements()); }

constexpr KernelEntry kForward[] = {
    {"cuda", DeviceKind::kCuda, log_softmax_cuda}, {"simd", DeviceKind::kCpu, simd}, {"ref", DeviceKind::kCpu, ref}};
constexpr KernelEntry kBackward[] = {{"cuda", DeviceKind::kCuda, log_softmax_grad_cuda},
                                     {"simd", DeviceKind::kCpu, simd_grad},
                                     {"ref", DeviceKind::kCpu, ref_grad}};
constexpr InOut kInPlace[] = {{0, 0}};
constexpr InOut kInPlaceGrad[] = {{0, 0}, {1, 0}};

}  // namespace

extern constinit const OpDef log_softmax = {.name = "log_softmax",
                                            .infer = infer_along_axis,
                                            .gradient = gradient,
                                            .kernels = kForward,
                                            .kernel_count = std::size(kForward),
                                            .flops = flops,
                                            .in_place = kInPlace};

extern constinit const OpDef log_softmax_grad = {.name = "log_softmax_grad",
                                                 .infer = infer_along_axis,
                                                 .kernels = kBackward,
                                                 .kernel_count = std::size(kBackward),
                                                 .flops = flops,
                                                 .in_place = kInPlaceGrad};

}  // namespace neap::ops
