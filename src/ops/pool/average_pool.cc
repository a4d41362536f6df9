// average_pool(x [N, (D, H,) W, C]; kernel, strides, pads, dilations, ceil_mode, count_include_pad, count_overhang) ->
// y
//
// With count_include_pad = 1 the taps in the padding count in the divisor. Those of a window that hangs over the end of
// the padding (ceil_mode) do not, as in PyTorch, unless count_overhang = 1, as in ONNX's reference.
//
// average_pool_grad(dy; the same and shape) -> dx
#include "neap/error.h"
#include "ops/conv/conv.h"
#include "ops/pool/pool.h"

namespace neap::ops {
namespace {

Types infer(const OpCall& call) {
  expect_f32(call);
  return {{DType::kF32, pooled(call.shape(0), call.attrs)}};
}

Types infer_grad(const OpCall& call) {
  expect_f32(call);
  const Shape x = call.attrs.shape("shape");
  if (!(call.shape(0) == pooled(x, call.attrs))) throw UserError("takes a gradient of the pooled shape");
  return {{DType::kF32, x}};
}

Values gradient(GradientCall& c) {
  return {c.g("average_pool_grad", {c.dy[0]}, with_shape(c.node.attrs, c.g.shape(c.x(0))))};
}

double flops(const OpCall& call) {
  double taps = 1;
  for (const std::int64_t k : call.attrs.ints("kernel")) taps *= static_cast<double>(k);
  return taps * static_cast<double>(call.outputs[0].elements());
}

Prepared simd(const OpCall& call) {
  if (call.shape(0).rank() == 5) return Declined{"no volumes"};
  return function_kernel([p = pool_of(call.shape(0), call.outputs[0].shape, call.attrs)](const Buffers& b) {
    pool_table().average(p.view(), b.in<float>(0), b.out<float>(0));
  });
}

Prepared simd_grad(const OpCall& call) {
  if (call.shape(0).rank() == 5) return Declined{"no volumes"};
  return function_kernel([p = pool_of(call.outputs[0].shape, call.shape(0), call.attrs)](const Buffers& b) {
    pool_table().average_grad(p.view(), b.in<float>(0), b.out<float>(0));
  });
}

constexpr KernelEntry kForward[] = {{"cuda", DeviceKind::kCuda, average_pool_cuda},
                                    {"simd", DeviceKind::kCpu, simd},
                                    {"ref", DeviceKind::kCpu, average_pool_ref}};
constexpr KernelEntry kBackward[] = {{"cuda", DeviceKind::kCuda, average_pool_grad_cuda},
                                     {"simd", DeviceKind::kCpu, simd_grad},
                                     {"ref", DeviceKind::kCpu, average_pool_grad_ref}};

}  // namespace

extern constinit const OpDef average_pool = {.name = "average_pool",
                                             .infer = infer,
                                             .gradient = gradient,
                                             .kernels = kForward,
                                             .kernel_count = std::size(kForward),
                                             .flops = flops,
                                             .cheap = true};

extern constinit const OpDef average_pool_grad = {
    .name = "average_pool_grad", .infer = infer_grad, .kernels = kBackward, .kernel_count = std::size(kBackward)};

}  // namespace neap::ops
