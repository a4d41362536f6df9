// bitwise_and, bitwise_or, bitwise_xor (a, b), bitwise_not (a), bit_shift(a, b; direction = "left" | "right"): integers
// of one type under numpy's broadcasting. Bits shifted beyond the end are lost; a right shift keeps the sign.
#include "ops/elementwise/broadcast.h"
#include "ops/elementwise/broadcast_offsets.h"
#include "ops/elementwise/element.h"
#include "ops/kernel.h"
#include "ops/matmul/checks.h"

namespace neap::ops {
namespace {

enum class Fn : std::uint8_t { kAnd, kOr, kXor, kNot, kLeft, kRight };

Fn fn_of(const OpCall& call) {
  if (call.op->name == "bitwise_and") return Fn::kAnd;
  if (call.op->name == "bitwise_or") return Fn::kOr;
  if (call.op->name == "bitwise_xor") return Fn::kXor;
  if (call.op->name == "bitwise_not") return Fn::kNot;
  const std::string direction = call.attrs.text("direction", "");
  if (direction != "left" && direction != "right") throw UserError("direction must be left or right");
  return direction == "left" ? Fn::kLeft : Fn::kRight;
}

// Of bitwise_not the second operand is the first.
std::size_t second(const OpCall& call) { return call.op->name == "bitwise_not" ? 0 : 1; }

Types infer(const OpCall& call) {
  fn_of(call);
  const DType type = call.in(0).dtype;
  need(is_integer(type), "takes integers");
  need(call.in(second(call)).dtype == type, "both operands must have one type; cast one of them");
  return {{type, broadcast(call.shape(0), call.shape(second(call)))}};
}

template <class T>
T value(Fn fn, T a, T b) {
  const std::int64_t x = static_cast<std::int64_t>(a);
  const std::int64_t y = static_cast<std::int64_t>(b);
  const bool is_beyond = static_cast<std::uint64_t>(y) >= 8 * sizeof(T);
  switch (fn) {
    case Fn::kAnd: return static_cast<T>(x & y);
    case Fn::kOr: return static_cast<T>(x | y);
    case Fn::kXor: return static_cast<T>(x ^ y);
    case Fn::kNot: return static_cast<T>(~x);
    case Fn::kLeft: return is_beyond ? T{0} : static_cast<T>(static_cast<std::uint64_t>(x) << y);
    case Fn::kRight: return is_beyond ? static_cast<T>(std::is_signed_v<T> && x < 0 ? -1 : 0) : static_cast<T>(a >> y);
  }
  throw InternalError("no function");
}

Prepared ref(const OpCall& call) {
  return with_type(call.in(0).dtype, [&]<class T>(Type<T>) -> Prepared {
    if constexpr (kIsInteger<T>) {
      const std::size_t other = second(call);
      return function_kernel(
          [fn = fn_of(call), other,
           plan = broadcast_plan(call.outputs[0].shape, {call.shape(0), call.shape(other)})](const Buffers& b) {
            for (std::int64_t i = 0; i < plan.count; ++i) {
              const auto at = broadcast_offsets(plan, i);
              b.out<T>(0)[i] = value(fn, b.in<T>(0)[at[0]], b.in<T>(other)[at[1]]);
            }
          });
    } else {
      return Declined{"no floats"};
    }
  });
}

constexpr KernelEntry kKernels[] = {{"ref", DeviceKind::kCpu, ref}};
constexpr InOut kInPlace[] = {{0, 0}};

constexpr OpDef op_of(std::string_view name) {
  return {.name = name,
          .infer = infer,
          .kernels = kKernels,
          .kernel_count = std::size(kKernels),
          .in_place = kInPlace,
          .cheap = true,
          .elementwise = true};
}

}  // namespace

extern constinit const OpDef bitwise_and = op_of("bitwise_and");
extern constinit const OpDef bitwise_or = op_of("bitwise_or");
extern constinit const OpDef bitwise_xor = op_of("bitwise_xor");
extern constinit const OpDef bitwise_not = op_of("bitwise_not");
extern constinit const OpDef bit_shift = op_of("bit_shift");

}  // namespace neap::ops
