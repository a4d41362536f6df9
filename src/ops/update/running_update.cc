// running_update(running_mean, running_var, mean, var; momentum, count): what batch norm remembers, as PyTorch does:
// running += momentum * (batch - running), with the variance unbiased, var * count / (count - 1). `count`, the number
// of elements a channel, is an integer or a shape whose elements are meant (it may have symbols).
#include <fmt/format.h>

#include "neap/error.h"
#include "ops/update/update.h"

namespace neap::ops {
namespace {

Types infer(const OpCall& call) {
  for (std::size_t i = 0; i < 4; ++i) {
    if (call.in(i).dtype != DType::kF32 || !(call.shape(i) == call.shape(0))) {
      throw UserError("takes four f32 tensors of one shape");
    }
  }
  const double momentum = call.attrs.real("momentum", 0.1);
  if (!(momentum >= 0 && momentum <= 1))
    throw UserError(fmt::format("momentum must lie in [0, 1], it is {}", momentum));
  if (!call.attrs.has("count")) throw UserError("attribute 'count' is missing");
  return {};
}

Prepared ref(const OpCall& call) {
  const auto count = static_cast<double>(running_count(call.attrs));
  return function_kernel([n = call.in(0).elements(), momentum = call.attrs.real("momentum", 0.1),
                          unbiased = count > 1 ? count / (count - 1) : 1](const Buffers& b) {
    float* running_mean = b.state<float>(0);
    float* running_var = b.state<float>(1);
    for (std::int64_t i = 0; i < n; ++i) {
      running_mean[i] = static_cast<float>((1 - momentum) * running_mean[i] + momentum * b.in<float>(2)[i]);
      running_var[i] = static_cast<float>((1 - momentum) * running_var[i] + momentum * unbiased * b.in<float>(3)[i]);
    }
  });
}

double four_a_channel(const OpCall& call) { return 4 * static_cast<double>(call.in(0).elements()); }

constexpr KernelEntry kKernels[] = {{"cuda", DeviceKind::kCuda, running_update_cuda}, {"ref", DeviceKind::kCpu, ref}};
constexpr std::uint8_t kState[] = {0, 1};

}  // namespace

std::int64_t running_count(const Attrs& attrs) {
  for (const auto& [key, value] : attrs) {
    if (key == "count" && std::holds_alternative<Shape>(value)) return std::get<Shape>(value).count();
  }
  return attrs.integer("count");
}

extern constinit const OpDef running_update = {.name = "running_update",
                                               .infer = infer,
                                               .kernels = kKernels,
                                               .kernel_count = std::size(kKernels),
                                               .flops = four_a_channel,
                                               .mutates = kState};

}  // namespace neap::ops
