// vocab_loss(x [...,in], weight [classes,in], bias? [classes], targets [...]; ignore_index = -100, reduction = mean)
//   -> loss [], and its gradients: x's, weight's, bias's. The loss is cross_entropy(linear(x, weight, bias), targets).
#include "ops/vocab_loss/vocab_loss.h"

#include <algorithm>

#include "ops/cross_entropy/classes.h"
#include "ops/matmul/checks.h"

namespace neap::ops {
namespace {

Shape logits_shape(const OpCall& call) {
  Shape shape = leading(call.shape(0), 1);
  shape.push_back(call.shape(1)[0]);
  return shape;
}

Types infer(const OpCall& call) {
  need_f32(call, 0);
  need_f32(call, 1);
  const Shape& x = call.shape(0);
  const Shape& w = call.shape(1);
  need(x.rank() >= 1 && w.rank() == 2 && may_equal(x[-1], w[1]), "the weight must be [classes, features of the input]");
  if (call.has(2)) need_same_shape(call.shape(2), {w[0]}, "the bias must have one number a class");
  check_targets(logits_shape(call), call, 3);
  is_mean(call.attrs);
  return {{DType::kF32, {}}, call.in(0), call.in(1), {DType::kF32, {w[0]}}};
}

double flops(const OpCall& call) {
  const VocabShape s = vocab_shape(call);
  return 6.0 * static_cast<double>(s.rows) * static_cast<double>(s.in) * static_cast<double>(s.classes.classes);
}

Prepared onednn(const OpCall& call) { return vocab_loss_onednn != nullptr ? vocab_loss_onednn(call) : not_linked(); }

constexpr KernelEntry kKernels[] = {{"onednn", DeviceKind::kCpu, onednn},
                                    {"simd", DeviceKind::kCpu, vocab_loss_own},
                                    {"ref", DeviceKind::kCpu, vocab_loss_ref}};

}  // namespace

VocabShape vocab_shape(const OpCall& call) {
  const ClassRows classes = class_rows(logits_shape(call), call, 3);
  return {.rows = classes.rows,
          .in = call.shape(1).size(1),
          .classes = classes,
          .bias = call.has(2),
          .mean = is_mean(call.attrs)};
}

// An eighth of the rows, but enough for products at full speed.
std::int64_t VocabShape::chunk() const {
  constexpr std::int64_t kLeast = 256;
  return fits_in_gradient() ? rows : std::min(rows, std::max(kLeast, (rows + 7) / 8));
}

// About 1 MiB of logits: they stay in the cache from one product to the next.
std::int64_t VocabShape::tile() const {
  constexpr std::int64_t kFloats = 256 * 1024;
  constexpr std::int64_t kLeast = 256;
  const std::int64_t wanted = std::max(kLeast, kFloats / std::max<std::int64_t>(1, chunk()) / 64 * 64);
  return std::min(classes.classes, wanted);
}

extern constinit const OpDef vocab_loss = {.name = "vocab_loss",
                                           .infer = infer,
                                           .kernels = kKernels,
                                           .kernel_count = std::size(kKernels),
                                           .flops = flops,
                                           .optional_outputs = 0b1000};

}  // namespace neap::ops
