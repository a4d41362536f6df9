// layer_norm(x, scale?, bias?; epsilon, axis) -> y, mean, rstd: over the axes from `axis` on; mean and rstd have the
// others. layer_norm_grad(dy, x, mean, rstd, scale?; axis) -> dx, dscale, dbias
// layer_norm_grad_sum(dy, x, mean, rstd, scale?, sum; axis) -> dx + sum, dscale, dbias (optimize/norm_gradient.h)
#include "neap/error.h"
#include "ops/conv/conv.h"
#include "ops/layer_norm/row_norm.h"

namespace neap::ops {

[[gnu::weak]] Prepared layer_norm_mixed_cuda(const OpCall& call);
[[gnu::weak]] Prepared layer_norm_grad_mixed_cuda(const OpCall& call);
[[gnu::weak]] Prepared layer_norm_cuda(const OpCall& call);
[[gnu::weak]] Prepared layer_norm_grad_cuda(const OpCall& call);
Prepared layer_norm_ref(const OpCall& call);
Prepared layer_norm_grad_ref(const OpCall& call);

namespace {

Types infer(const OpCall& call) {
  expect_f32(call);
  const Shape& x = call.shape(0);
  const int axis = norm_axis(x, call.attrs);
  norm_epsilon(call.attrs);
  expect_shape(call, 1, trailing(x, axis), "the scale");
  expect_shape(call, 2, trailing(x, axis), "the bias");
  const TensorType row{DType::kF32, leading_axes(x, axis)};
  return {call.in(0), row, row};
}

Types infer_grad(const OpCall& call) {
  expect_f32(call);
  const Shape& x = call.shape(1);
  const int axis = norm_axis(x, call.attrs);
  for (const std::size_t i : {2, 3}) call.in(i);
  expect_shape(call, 0, x, "dy");
  expect_shape(call, 2, leading_axes(x, axis), "the mean");
  expect_shape(call, 3, leading_axes(x, axis), "rstd");
  expect_shape(call, 4, trailing(x, axis), "the scale");
  const TensorType column{DType::kF32, trailing(x, axis)};
  return {call.in(1), column, column};
}

Types infer_grad_sum(const OpCall& call) {
  call.in(5);
  expect_shape(call, 5, call.shape(1), "the sum");
  return infer_grad(call);
}

// mean and rstd are functions of x: their own gradients would be more terms of dx.
Values gradient(GradientCall& c) {
  if (!c.dy[0] || c.dy[1] || c.dy[2]) throw UserError("only y of layer_norm can be differentiated");
  const Attrs attrs{{"axis", c.node.attrs.integer("axis", -1)}};
  const Values made = c.g.add("layer_norm_grad", {c.dy[0], c.x(0), c.y(1), c.y(2), c.x(1)}, attrs);
  Values dx(c.node.inputs.size());
  for (std::size_t i = 0; i < dx.size(); ++i) dx[i] = c.wants(i) ? made[i] : Value{};
  return dx;
}

Prepared simd(const OpCall& call) {
  if (!takes_types(call, -1, 0)) return Declined{"of bf16 only the result"};
  const bool narrow = call.outputs[0].dtype == DType::kBF16;
  return function_kernel([s = row_norm(call.shape(0), call.attrs), narrow](const Buffers& b) {
    row_norm_table().layer(s, {.x = b.in<float>(0),
                               .scale = b.in<float>(1),
                               .bias = b.in<float>(2),
                               .y = b.out<void>(0),
                               .is_narrow = narrow,
                               .mean = b.out<float>(1),
                               .rstd = b.out<float>(2)});
  });
}

Prepared simd_grad(const OpCall& call) {
  if (!takes_types(call, 0, -1)) return Declined{"of bf16 only dy"};
  const RowNorm s = row_norm(call.shape(1), call.attrs);
  const bool narrow = call.in(0).dtype == DType::kBF16;
  return function_kernel(
      [s, narrow](const Buffers& b) {
        row_norm_table().layer_grad(s, {.dy = b.in<void>(0),
                                        .is_narrow = narrow,
                                        .x = b.in<float>(1),
                                        .mean = b.in<float>(2),
                                        .rstd = b.in<float>(3),
                                        .scale = b.in<float>(4),
                                        .sum = b.in<float>(5),
                                        .dx = b.out<float>(0),
                                        .dscale = b.out<float>(1),
                                        .dbias = b.out<float>(2),
                                        .partial = reinterpret_cast<float*>(b.workspace)});
      },
      row_norm_partial_bytes(s));
}

double flops(const OpCall& call) { return 7.0 * static_cast<double>(call.in(0).elements()); }
double flops_grad(const OpCall& call) { return 13.0 * static_cast<double>(call.in(0).elements()); }

constexpr KernelEntry kForward[] = {{"cuda-warp", DeviceKind::kCuda, layer_norm_mixed_cuda, true},
                                    {"cuda", DeviceKind::kCuda, layer_norm_cuda},
                                    {"simd", DeviceKind::kCpu, simd, true},
                                    {"ref", DeviceKind::kCpu, layer_norm_ref}};
constexpr KernelEntry kBackward[] = {{"cuda-warp", DeviceKind::kCuda, layer_norm_grad_mixed_cuda, true},
                                     {"cuda", DeviceKind::kCuda, layer_norm_grad_cuda},
                                     {"simd", DeviceKind::kCpu, simd_grad, true},
                                     {"ref", DeviceKind::kCpu, layer_norm_grad_ref}};
constexpr KernelEntry kBackwardSum[] = {{"cuda", DeviceKind::kCuda, layer_norm_grad_cuda},
                                        {"simd", DeviceKind::kCpu, simd_grad},
                                        {"ref", DeviceKind::kCpu, layer_norm_grad_ref}};
constexpr InOut kInPlace[] = {{0, 0}};
constexpr InOut kGradSumInPlace[] = {{0, 0}, {1, 0}, {5, 0}};
constexpr InOut kGradInPlace[] = {{0, 0}, {1, 0}};

}  // namespace

extern constinit const OpDef layer_norm = {.name = "layer_norm",
                                           .infer = infer,
                                           .gradient = gradient,
                                           .kernels = kForward,
                                           .kernel_count = std::size(kForward),
                                           .flops = flops,
                                           .in_place = kInPlace,
                                           .optional_outputs = 0b110,
                                           .cheap = true};

extern constinit const OpDef layer_norm_grad = {.name = "layer_norm_grad",
                                                .infer = infer_grad,
                                                .kernels = kBackward,
                                                .kernel_count = std::size(kBackward),
                                                .flops = flops_grad,
                                                .in_place = kGradInPlace,
                                                .optional_outputs = 0b111};

extern constinit const OpDef layer_norm_grad_sum = {.name = "layer_norm_grad_sum",
                                                    .infer = infer_grad_sum,
                                                    .kernels = kBackwardSum,
                                                    .kernel_count = std::size(kBackwardSum),
                                                    .flops = flops_grad,
                                                    .in_place = kGradSumInPlace,
                                                    .optional_outputs = 0b111};

}  // namespace neap::ops
