// prelu(x, slope) -> y: x where it is positive, else slope * x; slope broadcasts to x (of an image: [C]).
//
// shrink(x; bias = 0, lambd = 0.5) -> y: x - bias above lambd, x + bias below -lambd, 0 between.
//
// prelu_grad(dy, x, slope) -> dx, prelu_slope_grad(dy, x) -> the slope's gradient before it is summed to its shape,
// shrink_grad(dy, x; lambd) -> dx. All f32.
#include "ops/prelu/prelu.h"

#include "ops/elementwise/broadcast.h"
#include "ops/elementwise/broadcast_offsets.h"
#include "ops/kernel.h"
#include "ops/matmul/checks.h"

namespace neap::ops {
namespace {

// Every input broadcasts to the first one.
Types infer(const OpCall& call) {
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    need_f32(call, i);
    if (broadcast(call.shape(0), call.shape(i)) == call.shape(0)) continue;
    throw UserError(fmt::format("{} does not broadcast to {}", call.shape(i).text(), call.shape(0).text()));
  }
  return {call.in(0)};
}

template <std::size_t N>
Types infer_of(const OpCall& call) {
  need(call.inputs.size() == N, "has too few or too many inputs");
  if (call.op->name.starts_with("shrink") && call.attrs.real("lambd", 0.5) < 0) {
    throw UserError("lambd must not be negative");
  }
  return infer(call);
}

Values gradient(GradientCall& c) {
  Values dx(2);
  if (c.wants(1)) dx[1] = sum_to_operand(c.g, c.g("prelu_slope_grad", {c.dy[0], c.x(0)}), c.x(1));
  if (c.wants(0)) dx[0] = c.g("prelu_grad", {c.dy[0], c.x(0), c.x(1)});
  return dx;
}

Values gradient_shrink(GradientCall& c) { return {c.g("shrink_grad", {c.dy[0], c.x(0)}, c.node.attrs)}; }

PreluArgs args_of(const Attrs& attrs) {
  return {.bias = static_cast<float>(attrs.real("bias", 0)), .lambd = static_cast<float>(attrs.real("lambd", 0.5))};
}

// Missing inputs repeat the first.
BroadcastPlan plan_of(const OpCall& call) {
  const auto shape = [&](std::size_t i) { return call.shape(i < call.inputs.size() ? i : 0); };
  return broadcast_plan(call.outputs[0].shape, {shape(0), shape(1), shape(2)});
}

const float* input(const Buffers& b, std::size_t i) { return b.in<float>(i < b.inputs.size() ? i : 0); }

template <PreluFn Fn>
Prepared simd(const OpCall& call) {
  return function_kernel([plan = plan_of(call), args = args_of(call.attrs)](const Buffers& b) {
    prelu_table().run[static_cast<int>(Fn)](plan, input(b, 0), input(b, 1), input(b, 2), b.out<float>(0), args);
  });
}

template <PreluFn Fn>
Prepared cuda(const OpCall& call) {
  return prelu_cuda != nullptr ? prelu_cuda(plan_of(call), Fn, args_of(call.attrs)) : not_linked();
}

template <PreluFn Fn>
double value(double a, double b, double c, PreluArgs k) {
  switch (Fn) {
    case PreluFn::kPrelu: return a < 0 ? a * b : a;
    case PreluFn::kPreluGrad: return b < 0 ? a * c : a;
    case PreluFn::kSlopeGrad: return b < 0 ? a * b : 0;
    case PreluFn::kShrink: return a < -k.lambd ? a + k.bias : a > k.lambd ? a - k.bias : a == a ? 0 : a;
    case PreluFn::kShrinkGrad: return b < -k.lambd || b > k.lambd ? a : 0;
    case PreluFn::kCount: break;
  }
  throw InternalError("no function");
}

template <PreluFn Fn>
Prepared ref(const OpCall& call) {
  return function_kernel([plan = plan_of(call), args = args_of(call.attrs)](const Buffers& b) {
    for (std::int64_t i = 0; i < plan.count; ++i) {
      const auto at = broadcast_offsets(plan, i);
      b.out<float>(0)[i] =
          static_cast<float>(value<Fn>(input(b, 0)[at[0]], input(b, 1)[at[1]], input(b, 2)[at[2]], args));
    }
  });
}

template <PreluFn Fn>
constexpr KernelEntry kKernels[] = {
    {"cuda", DeviceKind::kCuda, cuda<Fn>}, {"simd", DeviceKind::kCpu, simd<Fn>}, {"ref", DeviceKind::kCpu, ref<Fn>}};
constexpr InOut kInPlace[] = {{0, 0}};

template <PreluFn Fn, std::size_t Inputs>
constexpr OpDef op_of(std::string_view name, Values (*gradient_of)(GradientCall&) = nullptr) {
  return {.name = name,
          .infer = infer_of<Inputs>,
          .gradient = gradient_of,
          .kernels = kKernels<Fn>,
          .kernel_count = std::size(kKernels<Fn>),
          .in_place = kInPlace,
          .cheap = true,
          .elementwise = true};
}

}  // namespace

extern constinit const OpDef prelu = op_of<PreluFn::kPrelu, 2>("prelu", gradient);
extern constinit const OpDef prelu_grad = op_of<PreluFn::kPreluGrad, 3>("prelu_grad");
extern constinit const OpDef prelu_slope_grad = op_of<PreluFn::kSlopeGrad, 2>("prelu_slope_grad");
extern constinit const OpDef shrink = op_of<PreluFn::kShrink, 1>("shrink", gradient_shrink);
extern constinit const OpDef shrink_grad = op_of<PreluFn::kShrinkGrad, 2>("shrink_grad");

}  // namespace neap::ops
