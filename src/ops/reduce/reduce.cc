// Reductions (x; axes, keepdims = 1) over the named axes, or all when none is: reduce_sum, _mean, _max, _min, _prod,
// _l1, _l2, _log_sum_exp, _sum_square of numbers of any type (max and min of bool too: any and all); integers wrap
// around, their mean and norm are cut. sum_to(x; shape) undoes a broadcast. Fast for f32, and gradients are f32.
#include "ops/reduce/reduce.h"

#include <fmt/format.h>

#include "neap/error.h"
#include "ops/elementwise/element.h"

namespace neap::ops {
namespace {

struct Name {
  std::string_view name;
  ReduceFn fn;
};
constexpr Name kNames[] = {
    {"reduce_sum", ReduceFn::kSum},
    {"reduce_mean", ReduceFn::kMean},
    {"reduce_max", ReduceFn::kMax},
    {"reduce_min", ReduceFn::kMin},
    {"reduce_prod", ReduceFn::kProd},
    {"reduce_l1", ReduceFn::kL1},
    {"reduce_l2", ReduceFn::kL2},
    {"reduce_log_sum_exp", ReduceFn::kLogSumExp},
    {"reduce_sum_square", ReduceFn::kSumSquare},
};

Types infer(const OpCall& call) {
  const DType type = call.in(0).dtype;
  const ReduceFn fn = reduce_fn(call.op->name);
  const bool is_logic = type == DType::kBool && (fn == ReduceFn::kMax || fn == ReduceFn::kMin);
  const bool is_known = fn == ReduceFn::kLogSumExp ? is_float(type) : is_number(type) || is_logic;
  if (!is_known) throw UserError(fmt::format("does not take {}", name(type)));
  const Reduction reduction(call.attrs, call.shape(0).rank());
  return {{type, reduction.result(call.shape(0))}};
}

Types infer_sum_to(const OpCall& call) {
  const DType type = call.in(0).dtype;
  if (!is_number(type)) throw UserError(fmt::format("takes numbers, not {}", name(type)));
  const Shape shape = call.attrs.shape("shape");
  broadcast_axes(call.shape(0), shape);
  return {{type, shape}};
}

Values gradient_sum_to(GradientCall& c) {
  return {c.g("reduce_sum_grad", {c.dy[0]}, {{"shape", c.g.shape(c.x(0))}, {"broadcast", 1}})};
}

std::optional<std::int64_t> whole_view(const OpCall& call) {
  if (call.shape(0).elements() == call.attrs.shape("shape").elements()) return 0;
  return std::nullopt;
}

Prepared reduce_kernel(ReduceFn fn, const ReducePlan& plan) {
  return function_kernel(
      [fn, plan](const Buffers& b) {
        const auto& run = reduce_table().run;
        const float* x = b.in<float>(0);
        float* y = b.out<float>(0);
        auto* workspace = reinterpret_cast<double*>(b.workspace);
        if (fn == ReduceFn::kLogSumExp) run[static_cast<int>(ReduceFn::kMax)](plan, x, nullptr, y, workspace);
        run[static_cast<int>(fn)](plan, x, fn == ReduceFn::kLogSumExp ? y : nullptr, y, workspace);
      },
      plan.workspace_bytes());
}

Prepared simd(const OpCall& call) {
  if (call.in(0).dtype != DType::kF32) return Declined{"f32 only"};
  const Reduction reduction(call.attrs, call.shape(0).rank());
  return reduce_kernel(reduce_fn(call.op->name), reduce_plan(call.shape(0), reduction.is_reduced));
}

Prepared sum_to_simd(const OpCall& call) {
  if (call.in(0).dtype != DType::kF32) return Declined{"f32 only"};
  return reduce_kernel(ReduceFn::kSum,
                       reduce_plan(call.shape(0), broadcast_axes(call.shape(0), call.outputs[0].shape)));
}

double one_a_term(const OpCall& call) { return static_cast<double>(call.in(0).elements()); }

constexpr KernelEntry kReduce[] = {
    {"cuda", DeviceKind::kCuda, reduce_cuda}, {"simd", DeviceKind::kCpu, simd}, {"ref", DeviceKind::kCpu, reduce_ref}};
constexpr KernelEntry kSumTo[] = {{"cuda", DeviceKind::kCuda, sum_to_cuda},
                                  {"simd", DeviceKind::kCpu, sum_to_simd},
                                  {"ref", DeviceKind::kCpu, sum_to_ref}};

constexpr OpDef reduction(std::string_view name) {
  return {.name = name,
          .infer = infer,
          .gradient = reduce_gradient,
          .kernels = kReduce,
          .kernel_count = std::size(kReduce),
          .flops = one_a_term};
}

}  // namespace

ReduceFn reduce_fn(std::string_view op) {
  if (op.ends_with("_grad")) op.remove_suffix(5);
  for (const Name& each : kNames) {
    if (each.name == op) return each.fn;
  }
  throw InternalError(fmt::format("{} is no reduction", op));
}

extern constinit const OpDef reduce_sum = reduction("reduce_sum");
extern constinit const OpDef reduce_mean = reduction("reduce_mean");
extern constinit const OpDef reduce_max = reduction("reduce_max");
extern constinit const OpDef reduce_min = reduction("reduce_min");
extern constinit const OpDef reduce_prod = reduction("reduce_prod");
extern constinit const OpDef reduce_l1 = reduction("reduce_l1");
extern constinit const OpDef reduce_l2 = reduction("reduce_l2");
extern constinit const OpDef reduce_log_sum_exp = reduction("reduce_log_sum_exp");
extern constinit const OpDef reduce_sum_square = reduction("reduce_sum_square");
extern constinit const OpDef sum_to = {.name = "sum_to",
                                       .infer = infer_sum_to,
                                       .gradient = gradient_sum_to,
                                       .kernels = kSumTo,
                                       .kernel_count = std::size(kSumTo),
                                       .flops = one_a_term,
                                       .view_offset = whole_view};

}  // namespace neap::ops
