// cross_entropy(logits [...,classes], targets [...]; ignore_index = -100, label_smoothing = 0, reduction = mean)
//   -> loss [], lse [rows] (log of the sum of exponentials; what backward reads besides logits).
// A target that is ignore_index or no class at all counts neither in the sum nor in the mean; if none counts, loss is
// 0. correct_count(logits, targets; ignore_index) -> i64[2]: rows where the target's logit is the largest, rows
// counted.
#include "ops/cross_entropy/cross_entropy.h"

#include <algorithm>

#include "ops/matmul/checks.h"

namespace neap::ops {
namespace {

Types infer(const OpCall& call) {
  check_classes(call, 0, 1);
  return {{DType::kF32, {}}, {DType::kF32, {call.shape(1).elements()}}};
}

// (dloss, logits, targets, lse)
Types infer_grad(const OpCall& call) {
  check_classes(call, 1, 2);
  need_f32(call, 0);
  need_f32(call, 3);
  need(call.shape(0).rank() == 0, "the loss's gradient must be one number");
  need_same_shape(call.shape(3), {call.shape(2).elements()}, "lse must have one number a row");
  return {call.in(1)};
}

Types infer_count(const OpCall& call) {
  check_classes(call, 0, 1);
  return {{DType::kI64, {2}}};
}

Values gradient(GradientCall& c) {
  if (c.dy[1]) throw UserError("the gradient of lse is not defined; differentiate the loss");
  return {c.g("cross_entropy_grad", {c.dy[0], c.x(0), c.x(1), c.y(1)}, c.node.attrs), Value{}};
}

Prepared simd(const OpCall& call) {
  const auto run = [c = class_rows(call, 0, 1), mean = is_mean(call.attrs)](const Buffers& b) {
    auto* sums = reinterpret_cast<double*>(b.workspace);
    cross_entropy_table().forward(b.in<float>(0), b.in<void>(1), c, sums, b.out<float>(1));
    double sum = 0;
    for (std::int64_t i = 0; i < std::min(c.rows, kLossBlocks); ++i) sum += sums[i];
    if (b.out<float>(0) != nullptr) *b.out<float>(0) = static_cast<float>(sum * loss_scale(c, b.in<void>(1), mean));
  };
  return function_kernel(run, kLossBlocks * static_cast<std::int64_t>(sizeof(double)));
}

Prepared simd_grad(const OpCall& call) {
  return function_kernel([c = class_rows(call, 1, 2), mean = is_mean(call.attrs)](const Buffers& b) {
    const double scale = *b.in<float>(0) * loss_scale(c, b.in<void>(2), mean);
    cross_entropy_table().backward(b.in<float>(1), b.in<void>(2), b.in<float>(3), static_cast<float>(scale), c,
                                   b.out<float>(0));
  });
}

Prepared simd_count(const OpCall& call) {
  return function_kernel([c = class_rows(call, 0, 1)](const Buffers& b) {
    b.out<std::int64_t>(0)[0] = cross_entropy_table().correct(b.in<float>(0), b.in<void>(1), c);
    b.out<std::int64_t>(0)[1] = counted(c, b.in<void>(1));
  });
}

double flops(const OpCall& call) { return 12.0 * static_cast<double>(call.in(0).elements()); }
double flops_grad(const OpCall& call) { return 12.0 * static_cast<double>(call.in(1).elements()); }
double flops_count(const OpCall& call) { return static_cast<double>(call.in(0).elements()); }

constexpr KernelEntry kForward[] = {{"cuda", DeviceKind::kCuda, cross_entropy_cuda},
                                    {"simd", DeviceKind::kCpu, simd},
                                    {"ref", DeviceKind::kCpu, cross_entropy_ref}};
constexpr KernelEntry kBackward[] = {{"cuda", DeviceKind::kCuda, cross_entropy_grad_cuda},
                                     {"simd", DeviceKind::kCpu, simd_grad},
                                     {"ref", DeviceKind::kCpu, cross_entropy_grad_ref}};
constexpr KernelEntry kCount[] = {{"cuda", DeviceKind::kCuda, correct_count_cuda},
                                  {"simd", DeviceKind::kCpu, simd_count},
                                  {"ref", DeviceKind::kCpu, correct_count_ref}};
constexpr InOut kInPlace[] = {{1, 0}};

}  // namespace

extern constinit const OpDef cross_entropy = {.name = "cross_entropy",
                                              .infer = infer,
                                              .gradient = gradient,
                                              .kernels = kForward,
                                              .kernel_count = std::size(kForward),
                                              .flops = flops,
                                              .optional_outputs = 2};

extern constinit const OpDef cross_entropy_grad = {.name = "cross_entropy_grad",
                                                   .infer = infer_grad,
                                                   .kernels = kBackward,
                                                   .kernel_count = std::size(kBackward),
                                                   .flops = flops_grad,
                                                   .in_place = kInPlace};

extern constinit const OpDef correct_count = {.name = "correct_count",
                                              .infer = infer_count,
                                              .kernels = kCount,
                                              .kernel_count = std::size(kCount),
                                              .flops = flops_count};

}  // namespace neap::ops
