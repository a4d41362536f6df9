// softmax over the last axis, and its gradient.
#include "ops/softmax/softmax.h"

#include "neap/error.h"
#include "ops/kernel.h"

namespace neap::ops {
namespace {

Types infer(const OpCall& call) {
  if (call.in(0).dtype != DType::kF32) throw UserError("softmax takes f32");
  if (call.shape(0).rank() < 1) throw UserError("softmax needs at least one axis");
  return {call.in(0)};
}

// dx = y * (dy - sum(dy * y)). Reads y only, so the planner may drop x.
Values gradient(GradientCall& c) { return {c.g("softmax_grad", {c.dy[0], c.y(0)})}; }

Prepared simd(const OpCall& call) {
  const RowShape rows = row_shape(call.shape(0));
  return function_kernel([rows](const Buffers& b) { softmax_table().forward(b.in<float>(0), b.out<float>(0), rows); });
}

Prepared simd_grad(const OpCall& call) {
  const RowShape rows = row_shape(call.shape(0));
  return function_kernel([rows](const Buffers& b) {
    softmax_table().backward(b.in<float>(0), b.in<float>(1), b.out<float>(0), rows);
  });
}

constexpr KernelEntry kForward[] = {{"simd", DeviceKind::kCpu, simd}, {"ref", DeviceKind::kCpu, softmax_ref}};
constexpr KernelEntry kBackward[] = {{"simd", DeviceKind::kCpu, simd_grad}, {"ref", DeviceKind::kCpu, softmax_grad_ref}};
constexpr InOut kInPlace[] = {{0, 0}};

}  // namespace

RowShape row_shape(const Shape& shape) {
  const std::int64_t width = shape.size(-1);
  return {.rows = width == 0 ? 0 : shape.count() / width, .width = width};
}

extern constinit const OpDef softmax = {.name = "softmax",
                                 .infer = infer,
                                 .gradient = gradient,
                                 .kernels = kForward,
                                 .kernel_count = std::size(kForward),
                                 .in_place = kInPlace};

extern constinit const OpDef softmax_grad = {.name = "softmax_grad",
                                      .infer = same_as_first,
                                      .kernels = kBackward,
                                      .kernel_count = std::size(kBackward),
                                      .in_place = kInPlace};

}  // namespace neap::ops
