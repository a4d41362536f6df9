// linear_gelu(x [...,in], weight [out,in], bias? [out]) -> gelu(h), h = x weight^T + bias, both [...,out].
// gelu_linear_grad(dy [...,out], weight [out,in], h [...,in]; more) -> dh = (dy weight) gelu'(h), and with more=1
// gelu(h)
//   again and the sums of dh's columns [in]: backward through linear(gelu(h)).
// gelu is the form by tanh.
#include "ops/linear_gelu/linear_gelu.h"

#include "ops/linear/linear.h"
#include "ops/matmul/checks.h"

namespace neap::ops {
namespace {

Types infer(const OpCall& call) {
  const TensorType y{DType::kF32, need_linear(call)};
  return {y, y};
}

bool has_more(const Attrs& attrs) { return attrs.integer("more", 0) != 0; }

Types infer_grad(const OpCall& call) {
  for (const std::size_t i : {0UL, 1UL, 2UL}) need_f32(call, i);
  const Shape& dy = call.shape(0);
  const Shape& w = call.shape(1);
  const Shape& h = call.shape(2);
  need(dy.rank() >= 1 && w.rank() == 2 && may_equal(dy[-1], w[0]),
       "the gradient must have as many features as the weight gives");
  need(h.rank() == dy.rank() && may_equal(h[-1], w[1]), "what went into gelu must be what the weight takes");
  need_same_shape(leading(dy, 1), leading(h, 1), "the inputs must have the same rows");
  Types out = {call.in(2)};
  if (has_more(call.attrs)) out.insert(out.end(), {call.in(2), {DType::kF32, {w[1]}}});
  return out;
}

Values gradient(GradientCall& c) {
  if (c.dy[1]) throw UserError("only gelu's result can be differentiated");
  Values dx(c.node.inputs.size());
  const Value dh = c.g("gelu_grad", {c.dy[0], c.y(1)}, {{"approximate", std::string("tanh")}});
  if (c.wants(1) || c.wants(2)) {
    const Values dw = c.g.add("linear_grad_weight", {c.x(0), dh}, {{"shape", c.g.shape(c.x(1))}});
    if (c.wants(1)) dx[1] = dw[0];
    if (c.wants(2)) dx[2] = dw[1];
  }
  if (c.wants(0)) dx[0] = c.g("matmul", {dh, c.x(1)});
  return dx;
}

double product_flops(std::int64_t rows, std::int64_t in, std::int64_t out) {
  return 2.0 * static_cast<double>(rows) * static_cast<double>(in) * static_cast<double>(out);
}
double flops(const OpCall& call) {
  const LinearGeluShape s = linear_gelu_shape(call);
  return product_flops(s.rows, s.in, s.out);
}
double flops_grad(const OpCall& call) {
  const GeluLinearGradShape s = gelu_linear_grad_shape(call);
  return product_flops(s.rows, s.in, s.out);
}

constexpr KernelEntry kForward[] = {{"cublaslt", DeviceKind::kCuda, linear_gelu_epilogue, true},
                                    {"cuda", DeviceKind::kCuda, linear_gelu_cuda, true},
                                    {"ref", DeviceKind::kCpu, linear_gelu_ref}};
constexpr KernelEntry kBackward[] = {{"cublaslt", DeviceKind::kCuda, gelu_linear_grad_epilogue, true},
                                     {"cuda", DeviceKind::kCuda, gelu_linear_grad_cuda, true},
                                     {"ref", DeviceKind::kCpu, gelu_linear_grad_ref}};
constexpr InOut kAgainOverInput[] = {{2, 1}};

std::int64_t rows_of(const Shape& x) {
  std::int64_t rows = 1;
  for (int i = 0; i + 1 < x.rank(); ++i) rows *= x.size(i);
  return rows;
}

}  // namespace

LinearGeluShape linear_gelu_shape(const OpCall& call) {
  return {
      .rows = rows_of(call.shape(0)), .in = call.shape(1).size(1), .out = call.shape(1).size(0), .bias = call.has(2)};
}

GeluLinearGradShape gelu_linear_grad_shape(const OpCall& call) {
  return {.rows = rows_of(call.shape(0)),
          .in = call.shape(1).size(1),
          .out = call.shape(1).size(0),
          .more = has_more(call.attrs)};
}

extern constinit const OpDef linear_gelu = {.name = "linear_gelu",
                                            .infer = infer,
                                            .gradient = gradient,
                                            .kernels = kForward,
                                            .kernel_count = std::size(kForward),
                                            .flops = flops};

extern constinit const OpDef gelu_linear_grad = {.name = "gelu_linear_grad",
                                                 .infer = infer_grad,
                                                 .kernels = kBackward,
                                                 .kernel_count = std::size(kBackward),
                                                 .flops = flops_grad,
                                                 .in_place = kAgainOverInput,
                                                 .optional_outputs = 0b110};

}  // namespace neap::ops
