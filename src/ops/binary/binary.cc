// Functions of two tensors under numpy's broadcasting: add, sub, mul, div, min, max, mod(; fmod), pow of numbers of one
// type (the exponent of pow may have another), and equal, less, less_or_equal, greater, greater_or_equal, which give
// bool (equal takes bool too). Integers wrap around, their quotients are cut towards zero, and a quotient or rest by 0
// is 0. mod has the divisor's sign, with fmod = 1 the dividend's. Fast for f32, i32 and i64.
#include "ops/binary/binary.h"

#include <fmt/format.h>

#include "neap/error.h"
#include "ops/binary/binary_mixed_simd.h"
#include "ops/convert_kernel.h"
#include "ops/elementwise/broadcast.h"
#include "ops/elementwise/element.h"

namespace neap::ops {
namespace {

struct Name {
  std::string_view name;
  BinaryFn fn;
};
constexpr Name kNames[] = {{"add", BinaryFn::kAdd},
                           {"sub", BinaryFn::kSub},
                           {"mul", BinaryFn::kMul},
                           {"div", BinaryFn::kDiv},
                           {"min", BinaryFn::kMin},
                           {"max", BinaryFn::kMax},
                           {"mod", BinaryFn::kMod},
                           {"pow", BinaryFn::kPow},
                           {"equal", BinaryFn::kEqual},
                           {"less", BinaryFn::kLess},
                           {"less_or_equal", BinaryFn::kLessOrEqual},
                           {"greater", BinaryFn::kGreater},
                           {"greater_or_equal", BinaryFn::kGreaterOrEqual}};

bool is_comparison(BinaryFn fn) { return fn >= BinaryFn::kEqual; }

bool takes(BinaryFn fn, DType type) { return is_number(type) || (type == DType::kBool && fn == BinaryFn::kEqual); }

Types infer(const OpCall& call) {
  const BinaryFn fn = binary_fn(call);
  const DType type = call.in(0).dtype;
  const bool mixes = fn == BinaryFn::kPow && is_number(call.in(1).dtype);
  if (call.in(1).dtype != type && !mixes) throw UserError("both operands must have one type; cast one of them");
  if (!takes(fn, type)) throw UserError(fmt::format("does not take {}", name(type)));
  return {{is_comparison(fn) ? DType::kBool : type, broadcast(call.shape(0), call.shape(1))}};
}

Types infer_grad(const OpCall& call) {
  for (std::size_t i = 0; i < 3; ++i) {
    if (call.in(i).dtype != DType::kF32) throw UserError("takes f32");
    if (!(broadcast(call.shape(0), call.shape(i)) == call.shape(0))) {
      throw UserError(fmt::format("{} does not broadcast to {}", call.shape(i).text(), call.shape(0).text()));
    }
  }
  return {call.in(0)};
}

std::optional<BinaryType> fast_type(DType type) {
  if (type == DType::kF32) return BinaryType::kF32;
  if (type == DType::kI32) return BinaryType::kI32;
  if (type == DType::kI64) return BinaryType::kI64;
  return std::nullopt;
}

Prepared simd(const OpCall& call) {
  const DType type = call.in(0).dtype;
  const auto column = fast_type(type);
  if (!column || call.in(1).dtype != type) return Declined{"not these types"};
  const BinaryTable::Run run = binary_table().run[static_cast<int>(*column)][static_cast<int>(binary_fn(call))];
  if (run == nullptr) return Declined{"not this function of integers"};
  return function_kernel(
      [run, plan = broadcast_plan(call.outputs[0].shape, {call.shape(0), call.shape(1)})](const Buffers& b) {
        run(plan, b.in<std::byte>(0), b.in<std::byte>(1), b.out<std::byte>(0));
      });
}

BinaryMixedTable::Run mixed_function(BinaryFn fn) {
  const BinaryMixedTable& t = binary_mixed_table();
  return fn == BinaryFn::kAdd ? t.add : fn == BinaryFn::kSub ? t.sub : fn == BinaryFn::kMul ? t.mul : nullptr;
}

Prepared simd_mixed(const OpCall& call) {
  const auto fits = [&](const TensorType& t) {
    return (t.dtype == DType::kF32 || t.dtype == DType::kBF16) && t.shape == call.outputs[0].shape;
  };
  const BinaryMixedTable::Run run = mixed_function(binary_fn(call));
  if (run == nullptr || !has_bf16(call) || !fits(call.in(0)) || !fits(call.in(1)) || !fits(call.outputs[0])) {
    return Declined{"for bf16 of one shape, and not this function"};
  }
  const auto narrow = [](const TensorType& t) { return t.dtype == DType::kBF16; };
  return function_kernel([run, a = narrow(call.in(0)), b = narrow(call.in(1)), y = narrow(call.outputs[0]),
                          n = call.outputs[0].elements()](const Buffers& buffers) {
    run({buffers.in<void>(0), a}, {buffers.in<void>(1), b}, buffers.out<void>(0), y, n);
  });
}

Prepared simd_grad(const OpCall& call) {
  return function_kernel(
      [run = binary_table().grad[static_cast<int>(binary_grad_fn(call))],
       plan = broadcast_plan(call.outputs[0].shape, {call.shape(0), call.shape(1), call.shape(2)})](const Buffers& b) {
        run(plan, b.in<float>(0), b.in<float>(1), b.in<float>(2), b.out<float>(0));
      });
}

constexpr KernelEntry kForward[] = {{"cuda", DeviceKind::kCuda, binary_cuda, true},
                                    {"simd", DeviceKind::kCpu, simd},
                                    {"simd-bf16", DeviceKind::kCpu, simd_mixed, true},
                                    {"ref", DeviceKind::kCpu, binary_ref}};
constexpr KernelEntry kBackward[] = {{"cuda", DeviceKind::kCuda, binary_grad_cuda},
                                     {"simd", DeviceKind::kCpu, simd_grad},
                                     {"ref", DeviceKind::kCpu, binary_grad_ref}};
constexpr InOut kOverEither[] = {{0, 0}, {1, 0}};
constexpr InOut kOverAny[] = {{0, 0}, {1, 0}, {2, 0}};

constexpr OpDef arithmetic(std::string_view name, Values (*gradient)(GradientCall&)) {
  return {.name = name,
          .infer = infer,
          .gradient = gradient,
          .kernels = kForward,
          .kernel_count = std::size(kForward),
          .in_place = kOverEither,
          .cheap = true,
          .elementwise = true};
}

constexpr OpDef comparison(std::string_view name) {
  return {.name = name,
          .infer = infer,
          .kernels = kForward,
          .kernel_count = std::size(kForward),
          .cheap = true,
          .elementwise = true};
}

constexpr OpDef backward(std::string_view name) {
  return {.name = name,
          .infer = infer_grad,
          .kernels = kBackward,
          .kernel_count = std::size(kBackward),
          .in_place = kOverAny,
          .cheap = true,
          .elementwise = true};
}

}  // namespace

BinaryFn binary_fn(const OpCall& call) {
  for (const Name& each : kNames) {
    if (each.name != call.op->name) continue;
    const bool of_dividend = each.fn == BinaryFn::kMod && call.attrs.integer("fmod", 0) != 0;
    return of_dividend ? BinaryFn::kFmod : each.fn;
  }
  throw InternalError(fmt::format("{} is no binary op", call.op->name));
}

BinaryGradFn binary_grad_fn(const OpCall& call) {
  const std::string_view name = call.op->name;
  if (name == "div_grad") return BinaryGradFn::kDivisor;
  if (name == "pow_grad") return BinaryGradFn::kBase;
  if (name == "pow_exponent_grad") return BinaryGradFn::kExponent;
  return name == "min_grad" ? BinaryGradFn::kMin : BinaryGradFn::kMax;
}

extern constinit const OpDef add = arithmetic("add", gradient_add);
extern constinit const OpDef sub = arithmetic("sub", gradient_sub);
extern constinit const OpDef mul = arithmetic("mul", gradient_mul);
extern constinit const OpDef div = arithmetic("div", gradient_div);
extern constinit const OpDef min = arithmetic("min", gradient_min);
extern constinit const OpDef max = arithmetic("max", gradient_max);
extern constinit const OpDef mod = arithmetic("mod", gradient_mod);
extern constinit const OpDef pow = arithmetic("pow", gradient_pow);
extern constinit const OpDef equal = comparison("equal");
extern constinit const OpDef less = comparison("less");
extern constinit const OpDef less_or_equal = comparison("less_or_equal");
extern constinit const OpDef greater = comparison("greater");
extern constinit const OpDef greater_or_equal = comparison("greater_or_equal");
extern constinit const OpDef div_grad = backward("div_grad");
extern constinit const OpDef pow_grad = backward("pow_grad");
extern constinit const OpDef pow_exponent_grad = backward("pow_exponent_grad");
extern constinit const OpDef min_grad = backward("min_grad");
extern constinit const OpDef max_grad = backward("max_grad");

}  // namespace neap::ops
