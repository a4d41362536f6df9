// where(condition, a, b): a where the condition (bool) holds, else b, under numpy's broadcasting; any type.
#include "ops/where/where.h"

#include <fmt/format.h>

#include <cstring>

#include "neap/error.h"
#include "ops/elementwise/broadcast.h"
#include "ops/elementwise/broadcast_offsets.h"
#include "ops/kernel.h"
#include "ops/where/where_simd.h"

namespace neap::ops {
namespace {

Types infer(const OpCall& call) {
  if (call.in(0).dtype != DType::kBool) {
    throw UserError(fmt::format("the condition must be bool, it is {}", name(call.in(0).dtype)));
  }
  const DType type = call.in(1).dtype;
  if (call.in(2).dtype != type) throw UserError("both choices must have one type; cast one of them");
  if (type == DType::kBits) throw UserError("does not take bits; cast to bool");
  return {{type, broadcast(call.shape(0), broadcast(call.shape(1), call.shape(2)))}};
}

Values gradient(GradientCall& c) {
  Values dx(3);
  const Value zero = c.g.scalar(0);
  if (c.wants(2)) dx[2] = sum_to_operand(c.g, c.g("where", {c.x(0), zero, c.dy[0]}), c.x(2));
  if (c.wants(1)) dx[1] = sum_to_operand(c.g, c.g("where", {c.x(0), c.dy[0], zero}), c.x(1));
  return dx;
}

BroadcastPlan plan_of(const OpCall& call) {
  return broadcast_plan(call.outputs[0].shape, {call.shape(0), call.shape(1), call.shape(2)});
}

Prepared simd(const OpCall& call) {
  const std::int64_t bytes = byte_size(call.in(1).dtype, 1);
  const int log2 = bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3;
  return function_kernel([run = where_table().run[log2], plan = plan_of(call)](const Buffers& b) {
    run(plan, b.in<std::uint8_t>(0), b.in<std::byte>(1), b.in<std::byte>(2), b.out<std::byte>(0));
  });
}

Prepared ref(const OpCall& call) {
  return function_kernel([plan = plan_of(call), bytes = byte_size(call.in(1).dtype, 1)](const Buffers& b) {
    for (std::int64_t i = 0; i < plan.count; ++i) {
      const auto at = broadcast_offsets(plan, i);
      const bool first = b.in<std::uint8_t>(0)[at[0]] != 0;
      const std::byte* from = first ? b.in<std::byte>(1) + at[1] * bytes : b.in<std::byte>(2) + at[2] * bytes;
      std::memmove(b.out<std::byte>(0) + i * bytes, from, static_cast<std::size_t>(bytes));
    }
  });
}

constexpr KernelEntry kKernels[] = {
    {"cuda", DeviceKind::kCuda, where_cuda}, {"simd", DeviceKind::kCpu, simd}, {"ref", DeviceKind::kCpu, ref}};
constexpr InOut kInPlace[] = {{1, 0}, {2, 0}};

}  // namespace

extern constinit const OpDef where = {.name = "where",
                                      .infer = infer,
                                      .gradient = gradient,
                                      .kernels = kKernels,
                                      .kernel_count = std::size(kKernels),
                                      .in_place = kInPlace,
                                      .cheap = true,
                                      .elementwise = true};

}  // namespace neap::ops
