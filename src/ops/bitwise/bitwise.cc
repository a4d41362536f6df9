// bitwise_and, bitwise_or, bitwise_xor (a, b), bitwise_not (a), bit_shift(a, b; direction = "left" | "right"): integers
// of one type under numpy's broadcasting. Bits shifted beyond the end are lost; a right shift keeps the sign.
#include "ops/bitwise/bitwise.h"

#include "ops/elementwise/broadcast.h"
#include "ops/elementwise/broadcast_offsets.h"
#include "ops/elementwise/element.h"
#include "ops/matmul/checks.h"

namespace neap::ops {
namespace {

BitFn fn_of(const OpCall& call) {
  if (call.op->name == "bitwise_and") return BitFn::kAnd;
  if (call.op->name == "bitwise_or") return BitFn::kOr;
  if (call.op->name == "bitwise_xor") return BitFn::kXor;
  if (call.op->name == "bitwise_not") return BitFn::kNot;
  const std::string direction = call.attrs.text("direction", "");
  if (direction != "left" && direction != "right") throw UserError("direction must be left or right");
  return direction == "left" ? BitFn::kLeft : BitFn::kRight;
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

BroadcastPlan plan_of(const OpCall& call) {
  return broadcast_plan(call.outputs[0].shape, {call.shape(0), call.shape(second(call))});
}

Prepared cuda(const OpCall& call) {
  return bitwise_cuda != nullptr ? bitwise_cuda(fn_of(call), call.in(0).dtype, plan_of(call), second(call))
                                 : not_linked();
}

Prepared ref(const OpCall& call) {
  return with_type(call.in(0).dtype, [&]<class T>(Type<T>) -> Prepared {
    if constexpr (kIsInteger<T>) {
      return function_kernel([fn = fn_of(call), other = second(call), plan = plan_of(call)](const Buffers& b) {
        for (std::int64_t i = 0; i < plan.count; ++i) {
          const auto at = broadcast_offsets(plan, i);
          b.out<T>(0)[i] = bitwise_value(fn, b.in<T>(0)[at[0]], b.in<T>(other)[at[1]]);
        }
      });
    } else {
      return Declined{"no floats"};
    }
  });
}

constexpr KernelEntry kKernels[] = {{"cuda", DeviceKind::kCuda, cuda}, {"ref", DeviceKind::kCpu, ref}};
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
