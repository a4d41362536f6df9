// linear(x [...,in], weight [out,in], bias? [out]) -> [...,out]; transposed=1: weight is [in,out].
// linear_grad_weight(x, dy; shape, transposed) -> gradients of weight and bias.
#include "ops/linear/linear.h"

#include "ops/matmul/checks.h"

namespace neap::ops {
namespace {

bool is_transposed(const Attrs& attrs) { return attrs.integer("transposed", 0) != 0; }

Types infer(const OpCall& call) { return {{DType::kF32, need_linear(call, is_transposed(call.attrs))}}; }

Types infer_grad(const OpCall& call) {
  need_f32(call, 0);
  need_f32(call, 1);
  const Shape shape = call.attrs.shape("shape");
  need(shape.rank() == 2, "shape must have two axes");
  const bool transposed = is_transposed(call.attrs);
  const Shape& x = call.shape(0);
  const Shape& dy = call.shape(1);
  need(x.rank() >= 1 && may_equal(x[-1], shape[transposed ? 0 : 1]), "the first input does not fit the shape");
  need(dy.rank() >= 1 && may_equal(dy[-1], shape[transposed ? 1 : 0]), "the second input does not fit the shape");
  need_same_shape(leading(x, 1), leading(dy, 1), "the inputs must have the same rows");
  return {{DType::kF32, shape}, {DType::kF32, {shape[transposed ? 1 : 0]}}};
}

Values gradient(GradientCall& c) {
  Values dx(c.node.inputs.size());
  const bool transposed = is_transposed(c.node.attrs);
  if (c.wants(1) || c.wants(2)) {
    Attrs attrs{{"shape", c.g.shape(c.x(1))}};
    if (transposed) attrs.set("transposed", std::int64_t{1});
    const Values dw = c.g.add("linear_grad_weight", {c.x(0), c.dy[0]}, attrs);
    if (c.wants(1)) dx[1] = dw[0];
    if (c.wants(2)) dx[2] = dw[1];
  }
  if (c.wants(0)) {
    dx[0] = c.g("matmul", {c.dy[0], c.x(1)}, transposed ? Attrs{{"trans_b", std::int64_t{1}}} : Attrs{});
  }
  return dx;
}

double flops_of_shape(const LinearShape& s) {
  return 2.0 * static_cast<double>(s.rows) * static_cast<double>(s.in) * static_cast<double>(s.out);
}
double flops(const OpCall& call) { return flops_of_shape(linear_shape(call)); }
double flops_grad(const OpCall& call) { return flops_of_shape(linear_grad_shape(call)); }

Prepared onednn(const OpCall& call) { return linear_onednn != nullptr ? linear_onednn(call) : not_linked(); }
Prepared grad_onednn(const OpCall& call) {
  return linear_grad_onednn != nullptr ? linear_grad_onednn(call) : not_linked();
}

constexpr KernelEntry kForward[] = {{"cublaslt", DeviceKind::kCuda, linear_cuda, true},
                                    {"onednn", DeviceKind::kCpu, onednn, true},
                                    {"simd", DeviceKind::kCpu, linear_own},
                                    {"ref", DeviceKind::kCpu, linear_ref}};
constexpr KernelEntry kBackward[] = {{"cublaslt", DeviceKind::kCuda, linear_grad_cuda, true},
                                     {"onednn", DeviceKind::kCpu, grad_onednn, true},
                                     {"simd", DeviceKind::kCpu, linear_grad_own, true},
                                     {"ref", DeviceKind::kCpu, linear_grad_ref}};

std::int64_t rows_of(const Shape& x) {
  std::int64_t rows = 1;
  for (int i = 0; i + 1 < x.rank(); ++i) rows *= x.size(i);
  return rows;
}

}  // namespace

Shape need_linear(const OpCall& call, bool transposed) {
  need_f32(call, 0);
  need_f32(call, 1);
  const Shape& x = call.shape(0);
  const Shape& w = call.shape(1);
  need(x.rank() >= 1, "the input needs at least one axis");
  need(w.rank() == 2, "the weight must have two axes");
  const Dim& in = w[transposed ? 0 : 1];
  const Dim& out = w[transposed ? 1 : 0];
  if (!may_equal(x[-1], in)) {
    throw UserError(fmt::format("the input has {} features, the weight takes {}", x[-1].text(), in.text()));
  }
  if (call.has(2)) {
    need_f32(call, 2);
    need_same_shape(call.shape(2), {out}, "the bias must have one number an output");
  }
  Shape y = leading(x, 1);
  y.push_back(out);
  return y;
}

LinearShape linear_shape(const OpCall& call) {
  const bool transposed = is_transposed(call.attrs);
  return {.rows = rows_of(call.shape(0)),
          .in = call.shape(1).size(transposed ? 0 : 1),
          .out = call.shape(1).size(transposed ? 1 : 0),
          .transposed = transposed,
          .bias = call.has(2)};
}

LinearShape linear_grad_shape(const OpCall& call) {
  return {.rows = rows_of(call.shape(0)),
          .in = call.shape(0).size(-1),
          .out = call.shape(1).size(-1),
          .transposed = is_transposed(call.attrs)};
}

extern constinit const OpDef linear = {.name = "linear",
                                       .infer = infer,
                                       .gradient = gradient,
                                       .kernels = kForward,
                                       .kernel_count = std::size(kForward),
                                       .flops = flops};

extern constinit const OpDef linear_grad_weight = {.name = "linear_grad_weight",
                                                   .infer = infer_grad,
                                                   .kernels = kBackward,
                                                   .kernel_count = std::size(kBackward),
                                                   .flops = flops_grad,
                                                   .optional_outputs = 3};

}  // namespace neap::ops
