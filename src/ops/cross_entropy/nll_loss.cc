// nll_loss(log_probs [...,classes], targets [...]; ignore_index = -100, reduction = mean) -> loss [].
// Targets that do not count: see cross_entropy.
#include <algorithm>

#include "ops/cross_entropy/classes.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/matmul/checks.h"
#include "ops/shape_util/axes.h"

namespace neap::ops {
namespace {

Types infer(const OpCall& call) {
  check_classes(call, 0, 1);
  return {{DType::kF32, {}}};
}

// (dloss, targets; shape)
Types infer_grad(const OpCall& call) {
  need_f32(call, 0);
  need(call.shape(0).rank() == 0, "the loss's gradient must be one number");
  const Shape shape = call.attrs.shape("shape");
  check_targets(shape, call, 1);
  return {{DType::kF32, shape}};
}

Values gradient(GradientCall& c) {
  Attrs attrs = c.node.attrs;
  attrs.set("shape", known_shape(c.g.shape(c.x(0)), "the gradient of nll_loss"));
  return {c.g("nll_loss_grad", {c.dy[0], c.x(1)}, attrs), Value{}};
}

// One number a row is read: nothing to vectorise.
Prepared ref(const OpCall& call) {
  return function_kernel([c = class_rows(call, 0, 1), mean = is_mean(call.attrs)](const Buffers& b) {
    const void* targets = b.in<void>(1);
    double sum = 0;
    for (std::int64_t r = 0; r < c.rows; ++r) {
      const std::int64_t target = target_at(c, targets, r);
      if (is_counted(c, target)) sum -= b.in<float>(0)[r * c.classes + target];
    }
    *b.out<float>(0) = static_cast<float>(sum * loss_scale(c, targets, mean));
  });
}

Prepared ref_grad(const OpCall& call) {
  const ClassRows rows = class_rows(call.attrs.shape("shape"), call, 1);
  return function_kernel([c = rows, mean = is_mean(call.attrs)](const Buffers& b) {
    const void* targets = b.in<void>(1);
    const auto down = static_cast<float>(-*b.in<float>(0) * loss_scale(c, targets, mean));
    auto* out = b.out<float>(0);
#pragma omp parallel for schedule(static)
    for (std::int64_t r = 0; r < c.rows; ++r) {
      std::fill(out + r * c.classes, out + (r + 1) * c.classes, 0.0F);
      const std::int64_t target = target_at(c, targets, r);
      if (is_counted(c, target)) out[r * c.classes + target] = down;
    }
  });
}

double flops(const OpCall& call) { return static_cast<double>(call.in(1).elements()); }

constexpr KernelEntry kForward[] = {{"cuda", DeviceKind::kCuda, nll_loss_cuda}, {"ref", DeviceKind::kCpu, ref}};
constexpr KernelEntry kBackward[] = {{"cuda", DeviceKind::kCuda, nll_loss_grad_cuda},
                                     {"ref", DeviceKind::kCpu, ref_grad}};

}  // namespace

extern constinit const OpDef nll_loss = {.name = "nll_loss",
                                         .infer = infer,
                                         .gradient = gradient,
                                         .kernels = kForward,
                                         .kernel_count = std::size(kForward),
                                         .flops = flops};
extern constinit const OpDef nll_loss_grad = {.name = "nll_loss_grad",
                                              .infer = infer_grad,
                                              .kernels = kBackward,
                                              .kernel_count = std::size(kBackward),
                                              .flops = flops};

}  // namespace neap::ops
