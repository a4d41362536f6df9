// linear_loss(x [...,in], weight [classes,in], bias? [classes], targets [...]; as cross_entropy)
//   -> loss [], and its gradients by x, weight and bias.
// The cross entropy of a linear layer's logits, which never exist as a whole: rows are taken in tiles, and a tile's
// part of the gradients is computed while its logits are there.
#include "ops/linear_loss/linear_loss.h"

#include <algorithm>

#include "core/bytes.h"
#include "ops/linear/linear.h"
#include "ops/matmul/checks.h"
#include "ops/product_math.h"

namespace neap::ops {
namespace {

Types infer(const OpCall& call) {
  check_targets(need_linear(call), call, at(LinearLossIn::kTargets));
  return {{DType::kF32, {}}, call.in(0), call.in(1), {DType::kF32, {call.shape(1)[0]}}};
}

bool is_one(Builder& g, Value dy) {
  const NodeId producer = g.graph().at(dy).producer;
  return producer && g.graph().at(producer).op->name == "ones_like";
}

Values gradient(GradientCall& c) {
  for (std::size_t i = 1; i < 4; ++i) {
    if (c.dy[i]) throw UserError("only the loss can be differentiated");
  }
  Values dx(c.node.inputs.size());
  for (std::size_t i = 0; i < 3; ++i) {
    if (!c.wants(i)) continue;
    dx[i] = is_one(c.g, c.dy[0]) ? c.y(i + 1) : c.g("mul", {c.y(i + 1), c.dy[0]});
  }
  return dx;
}

double flops(const OpCall& call) {
  const LinearLossShape s = linear_loss_shape(call, 4);
  const double one = 2.0 * static_cast<double>(s.classes.rows) * static_cast<double>(s.classes.classes);
  return 3 * one * static_cast<double>(s.in);
}

constexpr KernelEntry kKernels[] = {{"cuda", DeviceKind::kCuda, linear_loss_cuda, true},
                                    {"simd", DeviceKind::kCpu, linear_loss_own, true},
                                    {"ref", DeviceKind::kCpu, linear_loss_ref}};

}  // namespace

LinearLossShape linear_loss_shape(const OpCall& call, std::int64_t element) {
  // More rows make products no faster.
  constexpr std::int64_t kTileBytes = 256 * kMiB;
  constexpr std::int64_t kTileRows = 4096;
  const Shape& w = call.shape(1);
  Shape logits = leading(call.shape(0), 1);
  logits.push_back(w[0]);
  LinearLossShape s{.classes = class_rows(logits, call, at(LinearLossIn::kTargets)),
                    .in = w.size(1),
                    .bias = call.has(2),
                    .mean = is_mean(call.attrs),
                    .tf32 = is_tf32(call.attrs)};
  std::int64_t most = 64;
  while (2 * most <= kTileRows && 2 * most * s.classes.classes * element <= kTileBytes) most *= 2;
  s.tile = std::min(most, s.classes.rows);
  return s;
}

extern constinit const OpDef linear_loss = {.name = "linear_loss",
                                            .infer = infer,
                                            .gradient = gradient,
                                            .kernels = kKernels,
                                            .kernel_count = std::size(kKernels),
                                            .flops = flops,
                                            .optional_outputs = 0b1110};

}  // namespace neap::ops
