// Functions of one tensor of floats, element by element, and their gradients (f32): f(x) and f_grad(dy, saved). neg,
// abs, square and sign take integers too. Fast for f32.
#include "ops/unary/unary.h"

#include <fmt/format.h>

#include <array>

#include "neap/error.h"
#include "ops/elementwise/element.h"

namespace neap::ops {
namespace {

enum class Gradient : std::uint8_t {
  kInput,   // f_grad(dy, x)
  kOutput,  // f_grad(dy, y): x may be overwritten by y
  kOther,   // a rule of its own
  kZero,    // flat wherever it has a slope: nothing flows back
};

struct Spec {
  std::string_view name;
  UnaryFn fn;
  Gradient gradient;
  bool integers = false;  // of any size too
};

constexpr std::array kSpecs = {
    Spec{"elu", UnaryFn::kElu, Gradient::kOutput},
    Spec{"selu", UnaryFn::kSelu, Gradient::kOutput},
    Spec{"celu", UnaryFn::kCelu, Gradient::kOutput},
    Spec{"hard_swish", UnaryFn::kHardSwish, Gradient::kInput},
    Spec{"softplus", UnaryFn::kSoftplus, Gradient::kOutput},
    Spec{"softsign", UnaryFn::kSoftsign, Gradient::kOutput},
    Spec{"mish", UnaryFn::kMish, Gradient::kInput},
    Spec{"gelu", UnaryFn::kGelu, Gradient::kInput},
    Spec{"silu", UnaryFn::kSilu, Gradient::kInput},
    Spec{"sigmoid", UnaryFn::kSigmoid, Gradient::kOutput},
    Spec{"tanh", UnaryFn::kTanh, Gradient::kOutput},
    Spec{"erf", UnaryFn::kErf, Gradient::kInput},
    Spec{"exp", UnaryFn::kExp, Gradient::kOther},
    Spec{"log", UnaryFn::kLog, Gradient::kOther},
    Spec{"log1p", UnaryFn::kLog1p, Gradient::kInput},
    Spec{"sqrt", UnaryFn::kSqrt, Gradient::kOutput},
    Spec{"rsqrt", UnaryFn::kRsqrt, Gradient::kOutput},
    Spec{"reciprocal", UnaryFn::kReciprocal, Gradient::kOutput},
    Spec{"neg", UnaryFn::kNeg, Gradient::kOther, true},
    Spec{"abs", UnaryFn::kAbs, Gradient::kInput, true},
    Spec{"square", UnaryFn::kSquare, Gradient::kInput, true},
    Spec{"sin", UnaryFn::kSin, Gradient::kInput},
    Spec{"cos", UnaryFn::kCos, Gradient::kInput},
    Spec{"tan", UnaryFn::kTan, Gradient::kOutput},
    Spec{"asin", UnaryFn::kAsin, Gradient::kInput},
    Spec{"acos", UnaryFn::kAcos, Gradient::kInput},
    Spec{"atan", UnaryFn::kAtan, Gradient::kInput},
    Spec{"sinh", UnaryFn::kSinh, Gradient::kInput},
    Spec{"cosh", UnaryFn::kCosh, Gradient::kInput},
    Spec{"asinh", UnaryFn::kAsinh, Gradient::kInput},
    Spec{"acosh", UnaryFn::kAcosh, Gradient::kInput},
    Spec{"atanh", UnaryFn::kAtanh, Gradient::kInput},
    Spec{"floor", UnaryFn::kFloor, Gradient::kZero},
    Spec{"ceil", UnaryFn::kCeil, Gradient::kZero},
    Spec{"round", UnaryFn::kRound, Gradient::kZero},
    Spec{"sign", UnaryFn::kSign, Gradient::kZero, true},
};

const Spec& spec_of(std::string_view name) {
  if (name.ends_with("_grad")) name.remove_suffix(5);
  for (const Spec& spec : kSpecs) {
    if (spec.name == name) return spec;
  }
  throw InternalError(fmt::format("{} is no unary op", name));
}

UnaryArgs args_of(UnaryFn fn, const Attrs& attrs) {
  const auto real = [&](std::string_view name, double fallback) {
    return static_cast<float>(attrs.real(name, fallback));
  };
  UnaryArgs args;
  if (fn == UnaryFn::kElu || fn == UnaryFn::kCelu) args.a = real("alpha", 1);
  if (fn == UnaryFn::kSelu) args = {real("alpha", 1.67326319217681884765625), real("gamma", 1.05070102214813232421875)};
  // Otherwise the gradient could not be told from the output.
  if (fn == UnaryFn::kElu && !(args.a >= 0)) throw UserError("alpha must not be negative");
  if (fn == UnaryFn::kCelu && (args.a == 0 || args.a != args.a)) throw UserError("alpha must not be 0");
  if (fn == UnaryFn::kSelu && !(args.a >= 0 && args.b > 0)) throw UserError("alpha and gamma must be positive");
  return args;
}

UnaryFn gelu_form(const Attrs& attrs) {
  const std::string form = attrs.text("approximate", "none");
  if (form == "tanh") return UnaryFn::kGeluTanh;
  if (form != "none") throw UserError(fmt::format("approximate is \"none\" or \"tanh\", not \"{}\"", form));
  return UnaryFn::kGelu;
}

Types infer(const OpCall& call) {
  const Spec& spec = spec_of(call.op->name);
  const DType type = call.in(0).dtype;
  const bool fits = is_float(type) || (spec.integers && is_integer(type));
  if (!fits) throw UserError(fmt::format("takes floats{}, not {}", spec.integers ? " and integers" : "", name(type)));
  unary_call(call);
  return {call.in(0)};
}

Types infer_grad(const OpCall& call) {
  if (call.in(0).dtype != DType::kF32 || !(call.in(0) == call.in(1))) {
    throw UserError("takes two f32 tensors of one shape");
  }
  unary_call(call);
  return {call.in(0)};
}

Values gradient(GradientCall& c) {
  const Spec& spec = spec_of(c.node.op->name);
  if (spec.gradient == Gradient::kZero) return {Value{}};
  if (spec.fn == UnaryFn::kExp) return {c.g("mul", {c.dy[0], c.y(0)})};
  if (spec.fn == UnaryFn::kLog) return {c.g("div", {c.dy[0], c.x(0)})};
  if (spec.fn == UnaryFn::kNeg) return {c.g("neg", {c.dy[0]})};
  const Value saved = spec.gradient == Gradient::kOutput ? c.y(0) : c.x(0);
  return {c.g(fmt::format("{}_grad", spec.name), {c.dy[0], saved}, c.node.attrs)};
}

// All tensors are of the one type.
bool is_all(const OpCall& call, DType type) {
  for (const auto& t : call.inputs) {
    if (t->dtype != type) return false;
  }
  return call.outputs[0].dtype == type;
}

using Half = UnaryTable::Half;

Prepared simd(const OpCall& call) {
  const UnaryCall unary = unary_call(call);
  const auto at = static_cast<int>(unary.fn);
  const std::int64_t n = call.in(0).elements();
  if (is_all(call, DType::kF32)) {
    return function_kernel([run = unary_table().forward[at], args = unary.args, n](const Buffers& b) {
      run(b.in<float>(0), b.out<float>(0), n, args);
    });
  }
  if (!is_all(call, DType::kBF16)) return Declined{"f32 or bf16 only"};
  return function_kernel([run = unary_table().forward_bf16[at], args = unary.args, n](const Buffers& b) {
    run(b.in<Half>(0), b.out<Half>(0), n, args);
  });
}

Prepared simd_grad(const OpCall& call) {
  const UnaryCall unary = unary_call(call);
  const auto at = static_cast<int>(unary.fn);
  const std::int64_t n = call.in(0).elements();
  if (is_all(call, DType::kF32)) {
    return function_kernel([run = unary_table().backward[at], args = unary.args, n](const Buffers& b) {
      run(b.in<float>(0), b.in<float>(1), b.out<float>(0), n, args);
    });
  }
  if (!is_all(call, DType::kBF16)) return Declined{"f32 or bf16 only"};
  return function_kernel([run = unary_table().backward_bf16[at], args = unary.args, n](const Buffers& b) {
    run(b.in<Half>(0), b.in<Half>(1), b.out<Half>(0), n, args);
  });
}

constexpr KernelEntry kForward[] = {{"cuda", DeviceKind::kCuda, unary_cuda, true},
                                    {"simd", DeviceKind::kCpu, simd, true},
                                    {"ref", DeviceKind::kCpu, unary_ref}};
constexpr KernelEntry kBackward[] = {{"cuda", DeviceKind::kCuda, unary_grad_cuda, true},
                                     {"simd", DeviceKind::kCpu, simd_grad, true},
                                     {"ref", DeviceKind::kCpu, unary_grad_ref}};
constexpr InOut kOverInput[] = {{0, 0}};
constexpr InOut kOverEither[] = {{0, 0}, {1, 0}};

constexpr OpDef forward(std::string_view name) {
  return {.name = name,
          .infer = infer,
          .gradient = gradient,
          .kernels = kForward,
          .kernel_count = std::size(kForward),
          .in_place = kOverInput,
          .cheap = true,
          .elementwise = true};
}

constexpr OpDef backward(std::string_view name) {
  return {.name = name,
          .infer = infer_grad,
          .kernels = kBackward,
          .kernel_count = std::size(kBackward),
          .in_place = kOverEither,
          .cheap = true,
          .elementwise = true};
}

}  // namespace

UnaryCall unary_call(const OpCall& call) {
  UnaryFn fn = spec_of(call.op->name).fn;
  if (fn == UnaryFn::kGelu) fn = gelu_form(call.attrs);
  return {.fn = fn, .args = args_of(fn, call.attrs)};
}

#define NEAP_UNARY(id) extern constinit const OpDef id = forward(#id);
#define NEAP_UNARY_WITH_GRAD(id) \
  NEAP_UNARY(id)                 \
  extern constinit const OpDef id##_grad = backward(#id "_grad");

NEAP_UNARY_WITH_GRAD(elu)
NEAP_UNARY_WITH_GRAD(selu)
NEAP_UNARY_WITH_GRAD(celu)
NEAP_UNARY_WITH_GRAD(hard_swish)
NEAP_UNARY_WITH_GRAD(softplus)
NEAP_UNARY_WITH_GRAD(softsign)
NEAP_UNARY_WITH_GRAD(mish)
NEAP_UNARY_WITH_GRAD(gelu)
NEAP_UNARY_WITH_GRAD(silu)
NEAP_UNARY_WITH_GRAD(sigmoid)
NEAP_UNARY_WITH_GRAD(tanh)
NEAP_UNARY_WITH_GRAD(erf)
NEAP_UNARY(exp)
NEAP_UNARY(log)
NEAP_UNARY_WITH_GRAD(log1p)
NEAP_UNARY_WITH_GRAD(sqrt)
NEAP_UNARY_WITH_GRAD(rsqrt)
NEAP_UNARY_WITH_GRAD(reciprocal)
NEAP_UNARY(neg)
NEAP_UNARY_WITH_GRAD(abs)
NEAP_UNARY_WITH_GRAD(square)
NEAP_UNARY_WITH_GRAD(sin)
NEAP_UNARY_WITH_GRAD(cos)
NEAP_UNARY_WITH_GRAD(tan)
NEAP_UNARY_WITH_GRAD(asin)
NEAP_UNARY_WITH_GRAD(acos)
NEAP_UNARY_WITH_GRAD(atan)
NEAP_UNARY_WITH_GRAD(sinh)
NEAP_UNARY_WITH_GRAD(cosh)
NEAP_UNARY_WITH_GRAD(asinh)
NEAP_UNARY_WITH_GRAD(acosh)
NEAP_UNARY_WITH_GRAD(atanh)
NEAP_UNARY(floor)
NEAP_UNARY(ceil)
NEAP_UNARY(round)
NEAP_UNARY(sign)

}  // namespace neap::ops
