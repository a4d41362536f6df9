// relu and its like: y, and a mask of one bit an element that says where the slope is the steep one.
// f_grad(dy, mask) needs nothing else, so neither x nor y is kept for backward.
#include "ops/relu/gate.h"

#include <fmt/format.h>

#include <limits>

#include "neap/error.h"

namespace neap::ops {
namespace {

constexpr std::string_view kNames[] = {"relu", "leaky_relu", "thresholded_relu", "clip", "hard_sigmoid"};
static_assert(std::size(kNames) == static_cast<std::size_t>(GateFn::kCount));

GateFn fn_of(std::string_view name) {
  if (name.ends_with("_grad")) name.remove_suffix(5);
  for (std::size_t i = 0; i < std::size(kNames); ++i) {
    if (kNames[i] == name) return static_cast<GateFn>(i);
  }
  throw InternalError(fmt::format("{} is no gate", name));
}

Types infer(const OpCall& call) {
  if (call.in(0).dtype != DType::kF32) throw UserError(fmt::format("takes f32, not {}", name(call.in(0).dtype)));
  gate_call(call);
  return {call.in(0), {DType::kBits, call.shape(0)}};
}

Types infer_grad(const OpCall& call) {
  const bool fits = call.in(0).dtype == DType::kF32 && call.in(1).dtype == DType::kBits;
  if (!fits || !(call.shape(0) == call.shape(1))) throw UserError("takes f32 and bits of one shape");
  gate_call(call);
  return {call.in(0)};
}

Values gradient(GradientCall& c) {
  return {c.g(fmt::format("{}_grad", c.node.op->name), {c.dy[0], c.y(1)}, c.node.attrs)};
}

Prepared simd(const OpCall& call) {
  const GateCall gate = gate_call(call);
  return function_kernel([run = gate_table().forward[static_cast<int>(gate.fn)], args = gate.args,
                          n = call.in(0).elements()](const Buffers& b) {
    run(b.in<float>(0), b.out<float>(0), b.out<std::uint8_t>(1), n, args);
  });
}

Prepared simd_grad(const OpCall& call) {
  return function_kernel([args = gate_call(call).args, n = call.in(0).elements()](const Buffers& b) {
    gate_table().backward(b.in<float>(0), b.in<std::uint8_t>(1), b.out<float>(0), n, args);
  });
}

constexpr KernelEntry kForward[] = {
    {"cuda", DeviceKind::kCuda, gate_cuda}, {"simd", DeviceKind::kCpu, simd}, {"ref", DeviceKind::kCpu, gate_ref}};
constexpr KernelEntry kBackward[] = {{"cuda", DeviceKind::kCuda, gate_grad_cuda},
                                     {"simd", DeviceKind::kCpu, simd_grad},
                                     {"ref", DeviceKind::kCpu, gate_grad_ref}};
constexpr InOut kInPlace[] = {{0, 0}};

constexpr OpDef forward(std::string_view name) {
  return {.name = name,
          .infer = infer,
          .gradient = gradient,
          .kernels = kForward,
          .kernel_count = std::size(kForward),
          .in_place = kInPlace,
          .optional_outputs = 1U << 1,
          .cheap = true,
          .elementwise = true};
}

constexpr OpDef backward(std::string_view name) {
  return {.name = name,
          .infer = infer_grad,
          .kernels = kBackward,
          .kernel_count = std::size(kBackward),
          .in_place = kInPlace,
          .cheap = true,
          .elementwise = true};
}

}  // namespace

GateCall gate_call(const OpCall& call) {
  const GateFn fn = fn_of(call.op->name);
  const auto real = [&](std::string_view name, double fallback) {
    return static_cast<float>(call.attrs.real(name, fallback));
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (fn) {
    case GateFn::kLeakyRelu: return {fn, {.closed = real("alpha", 0.01)}};
    case GateFn::kThresholdedRelu: return {fn, {.a = real("alpha", 1)}};
    case GateFn::kClip: return {fn, {.a = real("min", -kInfinity), .b = real("max", kInfinity)}};
    case GateFn::kHardSigmoid: {
      const float slope = real("alpha", 0.2);
      return {fn, {.a = slope, .b = real("beta", 0.5), .open = slope}};
    }
    default: return {fn, {}};
  }
}

extern constinit const OpDef relu = forward("relu");
extern constinit const OpDef relu_grad = backward("relu_grad");
extern constinit const OpDef leaky_relu = forward("leaky_relu");
extern constinit const OpDef leaky_relu_grad = backward("leaky_relu_grad");
extern constinit const OpDef thresholded_relu = forward("thresholded_relu");
extern constinit const OpDef thresholded_relu_grad = backward("thresholded_relu_grad");
extern constinit const OpDef clip = forward("clip");
extern constinit const OpDef clip_grad = backward("clip_grad");
extern constinit const OpDef hard_sigmoid = forward("hard_sigmoid");
extern constinit const OpDef hard_sigmoid_grad = backward("hard_sigmoid_grad");

}  // namespace neap::ops
