// max_pool(x [N, (D, H,) W, C]; kernel, strides, pads, dilations, ceil_mode) -> y, index
// `index` is the place inside the window of the first maximum, so that backward needs neither x nor y.
// max_pool_grad(dy, index; the same and shape) -> dx
#include "neap/error.h"
#include "ops/conv/conv.h"
#include "ops/pool/pool.h"

namespace neap::ops {
namespace {

Types infer(const OpCall& call) {
  expect_f32(call);
  const Shape y = pooled(call.shape(0), call.attrs);
  return {{DType::kF32, y}, {tap_type(call.attrs), y}};
}

Types infer_grad(const OpCall& call) {
  const Shape x = call.attrs.shape("shape");
  const bool fits = call.in(0).dtype == DType::kF32 && call.in(1).dtype == tap_type(call.attrs) &&
                    call.shape(0) == pooled(x, call.attrs) && call.shape(1) == call.shape(0);
  if (!fits) throw UserError("takes a gradient and an index of the pooled shape");
  return {{DType::kF32, x}};
}

Values gradient(GradientCall& c) {
  return {c.g("max_pool_grad", {c.dy[0], c.y(1)}, with_shape(c.node.attrs, c.g.shape(c.x(0))))};
}

double flops(const OpCall& call) {
  double taps = 1;
  for (const std::int64_t k : call.attrs.ints("kernel")) taps *= static_cast<double>(k);
  return taps * static_cast<double>(call.outputs[0].elements());
}

Prepared simd(const OpCall& call) {
  if (call.shape(0).rank() == 5) return Declined{"no volumes"};
  const bool wide = tap_type(call.attrs) == DType::kI32;
  return function_kernel([p = pool_of(call.shape(0), call.outputs[0].shape, call.attrs), wide](const Buffers& b) {
    pool_table().max(p.view(), b.in<float>(0), b.out<float>(0), b.out<void>(1), wide);
  });
}

Prepared simd_grad(const OpCall& call) {
  if (call.shape(0).rank() == 5) return Declined{"no volumes"};
  const bool wide = tap_type(call.attrs) == DType::kI32;
  return function_kernel([p = pool_of(call.outputs[0].shape, call.shape(0), call.attrs), wide](const Buffers& b) {
    pool_table().max_grad(p.view(), b.in<float>(0), b.in<void>(1), wide, b.out<float>(0));
  });
}

constexpr KernelEntry kForward[] = {{"cuda", DeviceKind::kCuda, max_pool_cuda, true},
                                    {"simd", DeviceKind::kCpu, simd},
                                    {"ref", DeviceKind::kCpu, max_pool_ref}};
constexpr KernelEntry kBackward[] = {{"cuda", DeviceKind::kCuda, max_pool_grad_cuda, true},
                                     {"simd", DeviceKind::kCpu, simd_grad},
                                     {"ref", DeviceKind::kCpu, max_pool_grad_ref}};

}  // namespace

extern constinit const OpDef max_pool = {.name = "max_pool",
                                         .infer = infer,
                                         .gradient = gradient,
                                         .kernels = kForward,
                                         .kernel_count = std::size(kForward),
                                         .flops = flops,
                                         .optional_outputs = 0b10,
                                         .cheap = true};

extern constinit const OpDef max_pool_grad = {
    .name = "max_pool_grad", .infer = infer_grad, .kernels = kBackward, .kernel_count = std::size(kBackward)};

}  // namespace neap::ops
