// softmax(x; axis = -1) and its gradient.
#include "ops/softmax/softmax.h"

#include "neap/error.h"
#include "ops/kernel.h"
#include "ops/shape_util/axes.h"

namespace neap::ops {
namespace {

// dx = y * (dy - sum(dy * y)). Reads y only, so the planner may drop x.
Values gradient(GradientCall& c) { return {c.g("softmax_grad", {c.dy[0], c.y(0)}, c.node.attrs)}; }

Prepared simd(const OpCall& call) {
  return function_kernel(
      [s = axis_shape(call)](const Buffers& b) { softmax_table().forward(b.in<float>(0), b.out<float>(0), s); });
}

Prepared simd_grad(const OpCall& call) {
  return function_kernel([s = axis_shape(call)](const Buffers& b) {
    softmax_table().backward(b.in<float>(0), b.in<float>(1), b.out<float>(0), s);
  });
}

double flops(const OpCall& call) { return 12.0 * static_cast<double>(call.in(0).elements()); }
double flops_grad(const OpCall& call) { return 4.0 * static_cast<double>(call.in(0).elements()); }

constexpr KernelEntry kForward[] = {{"cuda", DeviceKind::kCuda, softmax_cuda},
                                    {"simd", DeviceKind::kCpu, simd},
                                    {"ref", DeviceKind::kCpu, softmax_ref}};
constexpr KernelEntry kBackward[] = {{"cuda", DeviceKind::kCuda, softmax_grad_cuda},
                                     {"simd", DeviceKind::kCpu, simd_grad},
                                     {"ref", DeviceKind::kCpu, softmax_grad_ref}};
constexpr InOut kInPlace[] = {{0, 0}};
constexpr InOut kInPlaceGrad[] = {{0, 0}, {1, 0}};

}  // namespace

Types infer_along_axis(const OpCall& call) {
  if (call.in(0).dtype != DType::kF32) throw UserError("takes f32");
  if (call.shape(0).rank() < 1) throw UserError("needs at least one axis");
  axis_of(call.attrs.integer("axis", -1), call.shape(0).rank());
  return {call.in(0)};
}

AxisShape axis_shape(const OpCall& call) {
  const Shape& shape = call.shape(0);
  const int axis = axis_of(call.attrs.integer("axis", -1), shape.rank());
  AxisShape s{.outer = 1, .width = shape.size(axis), .inner = 1};
  for (int i = 0; i < axis; ++i) s.outer *= shape.size(i);
  for (int i = axis + 1; i < shape.rank(); ++i) s.inner *= shape.size(i);
  if (s.width == 0) s.outer = 0;
  return s;
}

extern constinit const OpDef softmax = {.name = "softmax",
                                        .infer = infer_along_axis,
                                        .gradient = gradient,
                                        .kernels = kForward,
                                        .kernel_count = std::size(kForward),
                                        .flops = flops,
                                        .in_place = kInPlace};

extern constinit const OpDef softmax_grad = {.name = "softmax_grad",
                                             .infer = infer_along_axis,
                                             .kernels = kBackward,
                                             .kernel_count = std::size(kBackward),
                                             .flops = flops_grad,
                                             .in_place = kInPlaceGrad};

}  // namespace neap::ops
