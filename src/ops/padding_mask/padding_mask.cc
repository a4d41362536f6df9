// padding_mask(tokens i32[batch, time], targets i32[batch, time]) -> bool [batch, 1, 1, time], a mask for attention:
// a key is seen unless it is padding, token 0 with target -100. Either alone is data: a token of a vocabulary, or one
// whose neighbour nobody asks for.
#include "ops/padding_mask/padding_mask.h"

#include "neap/error.h"

namespace neap::ops {
namespace {

Types infer(const OpCall& call) {
  const TensorType& tokens = call.in(0);
  if (tokens.dtype != DType::kI32 || tokens.shape.rank() != 2 || !(call.in(1) == tokens)) {
    throw UserError("takes tokens and targets, i32[batch, time] both");
  }
  return {{DType::kBool, {tokens.shape[0], 1, 1, tokens.shape[1]}}};
}

Values nothing_flows(GradientCall& /*c*/) { return {Value{}, Value{}}; }

Prepared ref(const OpCall& call) {
  return function_kernel([n = call.in(0).elements()](const Buffers& b) {
    for (std::int64_t i = 0; i < n; ++i) {
      const bool is_padding = b.in<std::int32_t>(0)[i] == kPaddingToken && b.in<std::int32_t>(1)[i] == kPaddingTarget;
      b.out<std::uint8_t>(0)[i] = is_padding ? 0 : 1;
    }
  });
}

constexpr KernelEntry kKernels[] = {{"cuda", DeviceKind::kCuda, padding_mask_cuda}, {"ref", DeviceKind::kCpu, ref}};

}  // namespace

extern constinit const OpDef padding_mask = {.name = "padding_mask",
                                             .infer = infer,
                                             .gradient = nothing_flows,
                                             .kernels = kKernels,
                                             .kernel_count = std::size(kKernels),
                                             .cheap = true};

}  // namespace neap::ops
