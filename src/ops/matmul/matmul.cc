// matmul(a, b; trans_a = 0, trans_b = 0, alpha = 1): numpy's rule for vectors and batches; the flags transpose the last
// two axes. Numbers of one type (integers wrap around, without alpha); fast for f32, and gradients are f32.
#include "ops/matmul/matmul.h"

#include "ops/elementwise/element.h"
#include "ops/matmul/checks.h"

namespace neap::ops {
namespace {

struct Sides {
  bool trans_a, trans_b;
  explicit Sides(const Attrs& attrs)
      : trans_a(attrs.integer("trans_a", 0) != 0), trans_b(attrs.integer("trans_b", 0) != 0) {}
};

void check(const OpCall& call, const Sides& sides) {
  const DType type = call.in(0).dtype;
  need(is_number(type) && call.in(1).dtype == type, "takes two tensors of one type of numbers");
  need(is_float(type) || call.attrs.real("alpha", 1) == 1, "integers take no alpha");
  for (const std::size_t i : {0UL, 1UL}) {
    need(call.shape(i).rank() >= 1, "takes vectors, matrices and batches of matrices, no scalars");
    need(call.shape(i).rank() >= 2 || !(i == 0 ? sides.trans_a : sides.trans_b), "a vector cannot be transposed");
  }
}

Types infer(const OpCall& call) {
  const Sides sides(call.attrs);
  check(call, sides);
  call.attrs.real("alpha", 1);
  const Shape& a = call.shape(0);
  const Shape& b = call.shape(1);
  const Dim inner_a = a.rank() == 1 ? a[0] : a[sides.trans_a ? -2 : -1];
  const Dim inner_b = b.rank() == 1 ? b[0] : b[sides.trans_b ? -1 : -2];
  if (!may_equal(inner_a, inner_b)) {
    throw UserError(fmt::format("the inner axes differ: {} and {}", inner_a.text(), inner_b.text()));
  }
  Shape out = broadcast(leading(a, 2), leading(b, 2));
  if (a.rank() > 1) out.push_back(a[sides.trans_a ? -1 : -2]);
  if (b.rank() > 1) out.push_back(b[sides.trans_b ? -2 : -1]);
  return {{call.in(0).dtype, out}};
}

Value reduced(Builder& g, Value value, const Shape& shape) {
  return g.shape(value) == shape ? value : g("sum_to", {value}, {{"shape", shape}});
}

Value reshaped(Builder& g, Value value, const Shape& shape) {
  return g.shape(value) == shape ? value : g("reshape", {value}, {{"shape", shape}});
}

// With a vector on either side: the same product of matrices, and back.
struct Operands {
  Value a, b, dy;
  Shape a_shape, b_shape;
};

Operands as_matrices(GradientCall& c) {
  const Shape a = c.g.shape(c.x(0));  // copies: adding nodes moves the graph's tensors
  const Shape b = c.g.shape(c.x(1));
  const Shape a_shape = a.rank() == 1 ? Shape{1, a[0]} : a;
  const Shape b_shape = b.rank() == 1 ? Shape{b[0], 1} : b;
  if (a.rank() > 1 && b.rank() > 1) return {c.x(0), c.x(1), c.dy[0], a_shape, b_shape};
  const Sides sides(c.node.attrs);
  Shape y = broadcast(leading(a_shape, 2), leading(b_shape, 2));
  y.push_back(a_shape[sides.trans_a ? -1 : -2]);
  y.push_back(b_shape[sides.trans_b ? -2 : -1]);
  return {reshaped(c.g, c.x(0), a_shape), reshaped(c.g, c.x(1), b_shape), reshaped(c.g, c.dy[0], y), a_shape, b_shape};
}

Value product(Builder& g, Value a, Value b, bool trans_a, bool trans_b, double alpha) {
  Attrs attrs;
  if (trans_a) attrs.set("trans_a", std::int64_t{1});
  if (trans_b) attrs.set("trans_b", std::int64_t{1});
  if (alpha != 1) attrs.set("alpha", alpha);
  return g("matmul", {a, b}, attrs);
}

// One matrix for a whole batch of rows: its gradient is one product over all rows, as that of a linear layer.
bool is_linear_layer(const Operands& o, const Sides& sides, double alpha) {
  return o.b_shape.rank() == 2 && o.a_shape.rank() > 2 && !sides.trans_a && alpha == 1;
}

Value gradient_of_b(GradientCall& c, const Operands& o, const Sides& sides, double alpha) {
  if (is_linear_layer(o, sides, alpha)) {
    Attrs attrs{{"shape", o.b_shape}};
    if (!sides.trans_b) attrs.set("transposed", std::int64_t{1});
    return c.g("linear_grad_weight", {o.a, o.dy}, attrs);
  }
  const Value db = sides.trans_b ? product(c.g, o.dy, o.a, true, sides.trans_a, alpha)
                                 : product(c.g, o.a, o.dy, !sides.trans_a, false, alpha);
  return reduced(c.g, db, o.b_shape);
}

Values gradient(GradientCall& c) {
  const Sides sides(c.node.attrs);
  const double alpha = c.node.attrs.real("alpha", 1);
  const Operands o = as_matrices(c);
  Values dx(2);
  const Shape a_shape = c.g.shape(c.x(0));
  const Shape b_shape = c.g.shape(c.x(1));
  if (c.wants(1)) dx[1] = reshaped(c.g, gradient_of_b(c, o, sides, alpha), b_shape);
  if (c.wants(0)) {
    const Value da = sides.trans_a ? product(c.g, o.b, o.dy, sides.trans_b, true, alpha)
                                   : product(c.g, o.dy, o.b, false, !sides.trans_b, alpha);
    dx[0] = reshaped(c.g, reduced(c.g, da, o.a_shape), a_shape);
  }
  return dx;
}

double flops(const OpCall& call) {
  const Shape& a = call.shape(0);
  const std::int64_t inner = a.rank() == 1 ? a.size(0) : a.size(Sides(call.attrs).trans_a ? -2 : -1);
  return 2.0 * static_cast<double>(call.outputs[0].elements()) * static_cast<double>(inner);
}

template <auto Prepare>
Prepared f32_only(const OpCall& call) {
  if (call.in(0).dtype != DType::kF32) return Declined{"f32 only"};
  return Prepare(call);
}

Prepared onednn(const OpCall& call) { return matmul_onednn != nullptr ? matmul_onednn(call) : not_linked(); }

constexpr KernelEntry kKernels[] = {{"cublaslt", DeviceKind::kCuda, matmul_cuda, true},
                                    {"onednn", DeviceKind::kCpu, onednn, true},
                                    {"simd", DeviceKind::kCpu, f32_only<matmul_simd>},
                                    {"ref", DeviceKind::kCpu, matmul_ref}};

}  // namespace

extern constinit const OpDef matmul = {.name = "matmul",
                                       .infer = infer,
                                       .gradient = gradient,
                                       .kernels = kKernels,
                                       .kernel_count = std::size(kKernels),
                                       .flops = flops};

}  // namespace neap::ops
