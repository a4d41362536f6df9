// rms_norm(x, scale?; epsilon, axis) -> y = scale * x * rstd, rstd = 1 / sqrt(mean(x^2) + epsilon) over the axes from
// `axis` on; rstd has the others.
// rms_norm_grad(dy, x, rstd, scale?; axis) -> dx, dscale
#include "ops/rms_norm/rms_norm.h"

#include <cmath>

#include "neap/error.h"
#include "ops/conv/conv.h"
#include "ops/layer_norm/row_norm.h"

namespace neap::ops {
namespace {

Types infer(const OpCall& call) {
  expect_f32(call);
  const Shape& x = call.shape(0);
  const int axis = norm_axis(x, call.attrs);
  norm_epsilon(call.attrs);
  expect_shape(call, 1, trailing(x, axis), "the scale");
  return {call.in(0), {DType::kF32, leading_axes(x, axis)}};
}

Types infer_grad(const OpCall& call) {
  expect_f32(call);
  const Shape& x = call.shape(1);
  const int axis = norm_axis(x, call.attrs);
  call.in(2);
  expect_shape(call, 0, x, "dy");
  expect_shape(call, 2, leading_axes(x, axis), "rstd");
  expect_shape(call, 3, trailing(x, axis), "the scale");
  return {call.in(1), {DType::kF32, trailing(x, axis)}};
}

Values gradient(GradientCall& c) {
  if (!c.dy[0] || c.dy[1]) throw UserError("only y of rms_norm can be differentiated");
  const Attrs attrs{{"axis", c.node.attrs.integer("axis", -1)}};
  const Values made = c.g.add("rms_norm_grad", {c.dy[0], c.x(0), c.y(1), c.x(1)}, attrs);
  Values dx(c.node.inputs.size());
  for (std::size_t i = 0; i < dx.size(); ++i) dx[i] = c.wants(i) ? made[i] : Value{};
  return dx;
}

Prepared simd(const OpCall& call) {
  if (!takes_types(call, -1, 0)) return Declined{"of bf16 only the result"};
  const bool narrow = call.outputs[0].dtype == DType::kBF16;
  return function_kernel([s = row_norm(call.shape(0), call.attrs), narrow](const Buffers& b) {
    row_norm_table().rms(s, {.x = b.in<float>(0),
                             .scale = b.in<float>(1),
                             .y = b.out<void>(0),
                             .is_narrow = narrow,
                             .rstd = b.out<float>(1)});
  });
}

Prepared simd_grad(const OpCall& call) {
  if (!takes_types(call, 0, -1)) return Declined{"of bf16 only dy"};
  const RowNorm s = row_norm(call.shape(1), call.attrs);
  const bool narrow = call.in(0).dtype == DType::kBF16;
  return function_kernel(
      [s, narrow](const Buffers& b) {
        row_norm_table().rms_grad(s, {.dy = b.in<void>(0),
                                      .is_narrow = narrow,
                                      .x = b.in<float>(1),
                                      .rstd = b.in<float>(2),
                                      .scale = b.in<float>(3),
                                      .dx = b.out<float>(0),
                                      .dscale = b.out<float>(1),
                                      .partial = reinterpret_cast<float*>(b.workspace)});
      },
      row_norm_partial_bytes(s));
}

double scale_at(const Buffers& b, std::size_t input, std::int64_t i) {
  return b.in<float>(input) != nullptr ? b.in<float>(input)[i] : 1;
}

Prepared ref(const OpCall& call) {
  const RowNorm s = row_norm(call.shape(0), call.attrs);
  return function_kernel([s, epsilon = norm_epsilon(call.attrs)](const Buffers& b) {
    for (std::int64_t r = 0; r < s.rows; ++r) {
      const float* x = b.in<float>(0) + r * s.width;
      double squares = 0;
      for (std::int64_t i = 0; i < s.width; ++i) squares += static_cast<double>(x[i]) * x[i];
      const double rstd = 1 / std::sqrt(squares / static_cast<double>(s.width) + epsilon);
      for (std::int64_t i = 0; i < s.width; ++i) {
        b.out<float>(0)[r * s.width + i] = static_cast<float>(x[i] * rstd * scale_at(b, 1, i));
      }
      if (b.outputs[1] != nullptr) b.out<float>(1)[r] = static_cast<float>(rstd);
    }
  });
}

Prepared ref_grad(const OpCall& call) {
  return function_kernel([s = row_norm(call.shape(1), call.attrs)](const Buffers& b) {
    const float* dy = b.in<float>(0);
    const float* x = b.in<float>(1);
    const float* rstd = b.in<float>(2);
    for (std::int64_t i = 0; i < s.width && b.outputs[1] != nullptr; ++i) {
      double sum = 0;
      for (std::int64_t r = 0; r < s.rows; ++r)
        sum += static_cast<double>(dy[r * s.width + i]) * x[r * s.width + i] * rstd[r];
      b.out<float>(1)[i] = static_cast<float>(sum);
    }
    for (std::int64_t r = 0; r < s.rows && b.outputs[0] != nullptr; ++r) {
      const auto g = [&](std::int64_t i) { return dy[r * s.width + i] * scale_at(b, 3, i); };
      const auto normal = [&](std::int64_t i) { return static_cast<double>(x[r * s.width + i]) * rstd[r]; };
      double product = 0;
      for (std::int64_t i = 0; i < s.width; ++i) product += g(i) * normal(i);
      product /= static_cast<double>(s.width);
      for (std::int64_t i = 0; i < s.width; ++i) {
        b.out<float>(0)[r * s.width + i] = static_cast<float>(rstd[r] * (g(i) - normal(i) * product));
      }
    }
  });
}

double flops(const OpCall& call) { return 4.0 * static_cast<double>(call.in(0).elements()); }
double flops_grad(const OpCall& call) { return 10.0 * static_cast<double>(call.in(0).elements()); }

constexpr KernelEntry kForward[] = {
    {"cuda", DeviceKind::kCuda, rms_norm_cuda}, {"simd", DeviceKind::kCpu, simd, true}, {"ref", DeviceKind::kCpu, ref}};
constexpr KernelEntry kBackward[] = {{"cuda", DeviceKind::kCuda, rms_norm_grad_cuda},
                                     {"simd", DeviceKind::kCpu, simd_grad, true},
                                     {"ref", DeviceKind::kCpu, ref_grad}};
constexpr InOut kInPlace[] = {{0, 0}};
constexpr InOut kGradInPlace[] = {{0, 0}, {1, 0}};

}  // namespace

extern constinit const OpDef rms_norm = {.name = "rms_norm",
                                         .infer = infer,
                                         .gradient = gradient,
                                         .kernels = kForward,
                                         .kernel_count = std::size(kForward),
                                         .flops = flops,
                                         .in_place = kInPlace,
                                         .optional_outputs = 0b10,
                                         .cheap = true};

extern constinit const OpDef rms_norm_grad = {.name = "rms_norm_grad",
                                              .infer = infer_grad,
                                              .kernels = kBackward,
                                              .kernel_count = std::size(kBackward),
                                              .flops = flops_grad,
                                              .in_place = kGradInPlace,
                                              .optional_outputs = 0b11};

}  // namespace neap::ops
