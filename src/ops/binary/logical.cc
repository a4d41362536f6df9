// and, or, xor of bool tensors under numpy's broadcasting.
#include "ops/binary/logical.h"

#include <fmt/format.h>

#include "neap/error.h"
#include "ops/elementwise/broadcast.h"
#include "ops/elementwise/broadcast_offsets.h"
#include "ops/kernel.h"

namespace neap::ops {
namespace {

Types infer(const OpCall& call) {
  for (std::size_t i = 0; i < 2; ++i) {
    if (call.in(i).dtype != DType::kBool) throw UserError(fmt::format("takes bool, not {}", name(call.in(i).dtype)));
  }
  return {{DType::kBool, broadcast(call.shape(0), call.shape(1))}};
}

template <auto F>
Prepared logical_ref(const OpCall& call) {
  return function_kernel(
      [plan = broadcast_plan(call.outputs[0].shape, {call.shape(0), call.shape(1)})](const Buffers& b) {
        for (std::int64_t i = 0; i < plan.count; ++i) {
          const auto at = broadcast_offsets(plan, i);
          const bool x = b.in<std::uint8_t>(0)[at[0]] != 0;
          const bool y = b.in<std::uint8_t>(1)[at[1]] != 0;
          b.out<std::uint8_t>(0)[i] = F(x, y) ? 1 : 0;
        }
      });
}

constexpr KernelEntry kAnd[] = {{"cuda", DeviceKind::kCuda, logical_cuda},
                                {"ref", DeviceKind::kCpu, logical_ref<[](bool x, bool y) { return x && y; }>}};
constexpr KernelEntry kOr[] = {{"cuda", DeviceKind::kCuda, logical_cuda},
                               {"ref", DeviceKind::kCpu, logical_ref<[](bool x, bool y) { return x || y; }>}};
constexpr KernelEntry kXor[] = {{"cuda", DeviceKind::kCuda, logical_cuda},
                                {"ref", DeviceKind::kCpu, logical_ref<[](bool x, bool y) { return x != y; }>}};
constexpr InOut kOverEither[] = {{0, 0}, {1, 0}};

constexpr OpDef logical(std::string_view name, const KernelEntry* kernels) {
  return {.name = name,
          .infer = infer,
          .kernels = kernels,
          .kernel_count = std::size(kAnd),
          .in_place = kOverEither,
          .cheap = true,
          .elementwise = true};
}

}  // namespace

extern constinit const OpDef logical_and = logical("and", kAnd);
extern constinit const OpDef logical_or = logical("or", kOr);
extern constinit const OpDef logical_xor = logical("xor", kXor);

}  // namespace neap::ops
