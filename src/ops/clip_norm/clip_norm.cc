// Clipping by the norm of all gradients together: square_sum(gradient) for each, then
// clip_scale(sums...; max_norm) = {min(1, max_norm / (norm + 1e-6)), norm}, which the updates take as `clip`.
#include <fmt/format.h>

#include <cmath>

#include "neap/error.h"
#include "ops/reduce/reduce.h"

namespace neap::ops {
namespace {

Types infer_square_sum(const OpCall& call) {
  if (call.in(0).dtype != DType::kF32) throw UserError(fmt::format("takes f32, not {}", name(call.in(0).dtype)));
  return {{DType::kF32, {1}}};
}

Types infer_clip_scale(const OpCall& call) {
  if (call.inputs.empty()) throw UserError("needs at least one square_sum");
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (!(call.in(i) == TensorType{DType::kF32, {1}})) throw UserError("takes square sums, f32[1] each");
  }
  const double max_norm = call.attrs.real("max_norm");
  if (!(max_norm > 0)) throw UserError(fmt::format("max_norm must be positive, it is {}", max_norm));
  return {{DType::kF32, {2}}};
}

Prepared square_sum_simd(const OpCall& call) {
  const Shape& shape = call.shape(0);
  const ReducePlan plan = reduce_plan(shape, std::vector<bool>(static_cast<std::size_t>(shape.rank()), true));
  return function_kernel(
      [plan](const Buffers& b) {
        reduce_table().run[static_cast<int>(ReduceFn::kSumSquare)](plan, b.in<float>(0), nullptr, b.out<float>(0),
                                                                   reinterpret_cast<double*>(b.workspace));
      },
      plan.workspace_bytes());
}

Prepared square_sum_ref(const OpCall& call) {
  return function_kernel([n = call.in(0).elements()](const Buffers& b) {
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(b.in<float>(0)[i]) * b.in<float>(0)[i];
    b.out<float>(0)[0] = static_cast<float>(sum);
  });
}

// A norm that is NaN makes the scale NaN: the step's gradients are lost and should be seen to be.
Prepared clip_scale_ref(const OpCall& call) {
  return function_kernel([count = call.inputs.size(), max_norm = call.attrs.real("max_norm")](const Buffers& b) {
    double sum = 0;
    for (std::size_t i = 0; i < count; ++i) sum += static_cast<double>(*b.in<float>(i));
    const double norm = std::sqrt(sum);
    const double scale = max_norm / (norm + 1e-6);
    b.out<float>(0)[0] = static_cast<float>(scale > 1 ? 1 : scale);
    b.out<float>(0)[1] = static_cast<float>(norm);
  });
}

double two_an_element(const OpCall& call) { return 2 * static_cast<double>(call.in(0).elements()); }

constexpr KernelEntry kSquareSum[] = {{"cuda", DeviceKind::kCuda, square_sum_cuda},
                                      {"simd", DeviceKind::kCpu, square_sum_simd},
                                      {"ref", DeviceKind::kCpu, square_sum_ref}};
constexpr KernelEntry kClipScale[] = {{"cuda", DeviceKind::kCuda, clip_scale_cuda},
                                      {"ref", DeviceKind::kCpu, clip_scale_ref}};

}  // namespace

extern constinit const OpDef square_sum = {.name = "square_sum",
                                           .infer = infer_square_sum,
                                           .kernels = kSquareSum,
                                           .kernel_count = std::size(kSquareSum),
                                           .flops = two_an_element};
extern constinit const OpDef clip_scale = {
    .name = "clip_scale", .infer = infer_clip_scale, .kernels = kClipScale, .kernel_count = std::size(kClipScale)};

}  // namespace neap::ops
