// accumulate(sum, grad, part): sum = grad for the first part of a batch (part[0] is 0), sum += grad for the others. The
// state behind gradient accumulation: one sum a parameter.
#include "neap/error.h"
#include "ops/update/update.h"

namespace neap::ops {
namespace {

Types infer(const OpCall& call) {
  if (call.in(0).dtype != DType::kF32 || !(call.in(1) == call.in(0))) {
    throw UserError("takes a sum and a gradient of one shape, f32");
  }
  if (!(call.in(2) == TensorType{DType::kF32, {1}})) throw UserError("part must be f32[1]");
  return {};
}

Prepared simd(const OpCall& call) {
  return function_kernel([n = call.in(0).elements()](const Buffers& b) {
    update_table().accumulate(b.state<float>(0), b.in<float>(1), n, b.in<float>(2)[0] == 0);
  });
}

Prepared ref(const OpCall& call) {
  return function_kernel([n = call.in(0).elements()](const Buffers& b) {
    for (std::int64_t i = 0; i < n; ++i) {
      const float g = b.in<float>(1)[i];
      b.state<float>(0)[i] = b.in<float>(2)[0] == 0 ? g : b.in<float>(0)[i] + g;
    }
  });
}

double traffic(const OpCall& call) { return 3 * static_cast<double>(call.in(0).bytes()); }
double one_an_element(const OpCall& call) { return static_cast<double>(call.in(0).elements()); }

constexpr KernelEntry kKernels[] = {
    {"cuda", DeviceKind::kCuda, accumulate_cuda}, {"simd", DeviceKind::kCpu, simd}, {"ref", DeviceKind::kCpu, ref}};
constexpr std::uint8_t kState[] = {0};

}  // namespace

extern constinit const OpDef accumulate = {.name = "accumulate",
                                           .infer = infer,
                                           .kernels = kKernels,
                                           .kernel_count = std::size(kKernels),
                                           .flops = one_an_element,
                                           .traffic = traffic,
                                           .mutates = kState};

}  // namespace neap::ops
