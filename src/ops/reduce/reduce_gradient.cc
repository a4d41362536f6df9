// Gradients of the reductions: dy is spread over the reduced axes, weighted by what x and y say.
#include <fmt/format.h>

#include "core/bytes.h"
#include "neap/error.h"
#include "ops/elementwise/broadcast.h"
#include "ops/reduce/reduce.h"
#include "ops/reduce/reduce_grad_simd.h"

namespace neap::ops {
namespace {

bool reads_result(ReduceFn fn) {
  return fn == ReduceFn::kMax || fn == ReduceFn::kMin || fn == ReduceFn::kL2 || fn == ReduceFn::kLogSumExp;
}

// The shape of dy with a 1 for each reduced axis.
Shape kept_shape(const OpCall& call, const Shape& src) {
  if (call.attrs.integer("broadcast", 0) != 0) return call.shape(0);
  return Reduction(call.attrs, src.rank()).kept(src);
}

Types infer_spread(const OpCall& call) {
  const Shape shape = call.attrs.shape("shape");
  if (call.in(0).dtype != DType::kF32) throw UserError("takes f32");
  if (call.attrs.integer("broadcast", 0) != 0) {
    broadcast_axes(shape, call.shape(0));
  } else if (!(Reduction(call.attrs, shape.rank()).result(shape) == call.shape(0))) {
    throw UserError(fmt::format("{} is no reduction of {}", call.shape(0).text(), shape.text()));
  }
  return {{DType::kF32, shape}};
}

Types infer_grad(const OpCall& call) {
  const Shape result = Reduction(call.attrs, call.shape(1).rank()).result(call.shape(1));
  const ReduceFn fn = reduce_fn(call.op->name);
  for (const std::size_t i : {0, 1, 2}) {
    if (i == 2 && !reads_result(fn)) break;
    if (call.in(i).dtype != DType::kF32) throw UserError("takes f32");
    if (i != 1 && !(call.shape(i) == result)) {
      throw UserError(fmt::format("{} is no reduction of {}", call.shape(i).text(), call.shape(1).text()));
    }
  }
  return {call.in(1)};
}

float spread_scale(const OpCall& call) {
  if (call.attrs.integer("mean", 0) == 0) return 1;
  const auto terms = static_cast<double>(call.outputs[0].elements()) / static_cast<double>(call.in(0).elements());
  return static_cast<float>(1 / terms);
}

Prepared simd_spread(const OpCall& call) {
  const Shape& shape = call.outputs[0].shape;
  return function_kernel(
      [plan = broadcast_plan(shape, {kept_shape(call, shape)}), scale = spread_scale(call)](const Buffers& b) {
        reduce_grad_table().spread(plan, b.in<float>(0), scale, b.out<float>(0));
      });
}

ReduceGradFn grad_fn(ReduceFn fn) {
  switch (fn) {
    case ReduceFn::kL1: return ReduceGradFn::kL1;
    case ReduceFn::kL2: return ReduceGradFn::kL2;
    case ReduceFn::kLogSumExp: return ReduceGradFn::kLogSumExp;
    case ReduceFn::kSumSquare: return ReduceGradFn::kSumSquare;
    case ReduceFn::kProd: return ReduceGradFn::kProd;
    default: return ReduceGradFn::kShare;
  }
}

// Where the two intermediate results and the reduction's own scratch lie in the workspace.
struct Scratch {
  std::int64_t first = 0, second = 0, partial = 0, bytes = 0;

  explicit Scratch(const ReducePlan& plan) {
    second = align_up(plan.outputs() * 4);
    partial = 2 * second;
    bytes = partial + plan.workspace_bytes();
  }
};

Prepared simd_grad(const OpCall& call) {
  const ReduceFn fn = reduce_fn(call.op->name);
  const Shape& shape = call.shape(1);
  const Shape kept = Reduction(call.attrs, shape.rank()).kept(shape);
  const BroadcastPlan spread = broadcast_plan(shape, {kept, shape, kept, kept});
  const auto run = reduce_grad_table().run[static_cast<int>(grad_fn(fn))];
  if (grad_fn(fn) != ReduceGradFn::kShare && fn != ReduceFn::kProd) {
    return function_kernel([run, spread](const Buffers& b) {
      run(spread, b.in<float>(0), b.in<float>(1), b.in<float>(2), nullptr, b.out<float>(0));
    });
  }
  const ReducePlan plan = reduce_plan(shape, Reduction(call.attrs, shape.rank()).is_reduced);
  const Scratch scratch(plan);
  return function_kernel(
      [run, spread, plan, scratch, fn](const Buffers& b) {
        const auto& reduce = reduce_table().run;
        const float* x = b.in<float>(1);
        const float* p = b.in<float>(2);
        auto* q = reinterpret_cast<float*>(b.workspace + scratch.second);
        auto* partial = reinterpret_cast<double*>(b.workspace + scratch.partial);
        if (fn == ReduceFn::kProd) {
          auto* product = reinterpret_cast<float*>(b.workspace + scratch.first);
          reduce[static_cast<int>(ReduceFn::kProdWithoutZero)](plan, x, nullptr, product, partial);
          reduce[static_cast<int>(ReduceFn::kZeros)](plan, x, nullptr, q, partial);
          p = product;
        } else {
          reduce[static_cast<int>(ReduceFn::kTies)](plan, x, p, q, partial);
        }
        run(spread, b.in<float>(0), x, p, q, b.out<float>(0));
      },
      scratch.bytes);
}

constexpr KernelEntry kSpread[] = {{"cuda", DeviceKind::kCuda, reduce_sum_grad_cuda},
                                   {"simd", DeviceKind::kCpu, simd_spread},
                                   {"ref", DeviceKind::kCpu, reduce_sum_grad_ref}};
constexpr KernelEntry kGrad[] = {{"cuda", DeviceKind::kCuda, reduce_grad_cuda},
                                 {"simd", DeviceKind::kCpu, simd_grad},
                                 {"ref", DeviceKind::kCpu, reduce_grad_ref}};
constexpr InOut kOverX[] = {{1, 0}};

// An element's gradient depends on its group's other elements.
constexpr OpDef grad_of_group(std::string_view name) {
  return {.name = name, .infer = infer_grad, .kernels = kGrad, .kernel_count = std::size(kGrad)};
}

constexpr OpDef grad_of_element(std::string_view name) {
  OpDef op = grad_of_group(name);
  op.in_place = kOverX;
  op.cheap = true;
  return op;
}

}  // namespace

Values reduce_gradient(GradientCall& c) {
  const ReduceFn fn = reduce_fn(c.node.op->name);
  Attrs attrs = c.node.attrs;
  if (fn == ReduceFn::kSum || fn == ReduceFn::kMean) {
    attrs.set("shape", c.g.shape(c.x(0)));
    if (fn == ReduceFn::kMean) attrs.set("mean", 1);
    return {c.g("reduce_sum_grad", {c.dy[0]}, attrs)};
  }
  Values inputs = {c.dy[0], c.x(0)};
  if (reads_result(fn)) inputs.push_back(c.y(0));
  return {c.g(fmt::format("{}_grad", c.node.op->name), inputs, attrs)};
}

extern constinit const OpDef reduce_sum_grad = {.name = "reduce_sum_grad",
                                                .infer = infer_spread,
                                                .kernels = kSpread,
                                                .kernel_count = std::size(kSpread),
                                                .cheap = true};
extern constinit const OpDef reduce_max_grad = grad_of_group("reduce_max_grad");
extern constinit const OpDef reduce_min_grad = grad_of_group("reduce_min_grad");
extern constinit const OpDef reduce_prod_grad = grad_of_group("reduce_prod_grad");
extern constinit const OpDef reduce_l1_grad = grad_of_element("reduce_l1_grad");
extern constinit const OpDef reduce_l2_grad = grad_of_element("reduce_l2_grad");
extern constinit const OpDef reduce_log_sum_exp_grad = grad_of_element("reduce_log_sum_exp_grad");
extern constinit const OpDef reduce_sum_square_grad = grad_of_element("reduce_sum_square_grad");

}  // namespace neap::ops
