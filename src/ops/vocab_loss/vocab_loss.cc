// vocab_loss(x [...,in], weight [classes,in], bias? [classes], targets [...]; ignore_index = -100, reduction = mean)
//   -> loss [], and its gradients: x's, weight's, bias's. The loss is cross_entropy(linear(x, weight, bias), targets).
// The same in parts, for those who can do with some rows of the weight's gradient at a time; no more rows than
// features:
//   vocab_delta(x, weight, bias?, targets; as above) -> loss, x's gradient, the logits' [classes, rows], bias's
//   vocab_weight(x, the logits' gradient; first, count) -> rows [first, first + count) of the weight's gradient
// The logits' gradient lies tile after tile of classes (VocabShape::tile()); `first` and `count` mean whole tiles.
#include "ops/vocab_loss/vocab_loss.h"

#include <algorithm>

#include "ops/cross_entropy/classes.h"
#include "ops/linear/linear.h"
#include "ops/linear_loss/linear_loss.h"
#include "ops/matmul/checks.h"
#include "ops/product_math.h"

namespace neap::ops {
namespace {

Types infer(const OpCall& call) {
  check_targets(need_linear(call), call, 3);
  is_mean(call.attrs);
  return {{DType::kF32, {}}, call.in(0), call.in(1), {DType::kF32, {call.shape(1)[0]}}};
}

// Of a number that is not known yet, it is left open.
bool is_known_beyond(const Dim& a, const Dim& b) { return a.is_number() && b.is_number() && a.number() > b.number(); }

Types infer_delta(const OpCall& call) {
  Types out = infer(call);
  const Dim rows = leading(call.shape(0), 1).elements();
  need(!is_known_beyond(rows, call.shape(1)[1]), "takes no more rows than features");
  out[2] = {DType::kF32, {call.shape(1)[0], rows}};
  return out;
}

Types infer_weight(const OpCall& call) {
  need_f32(call, 0);
  need_f32(call, 1);
  const Shape& x = call.shape(0);
  const Shape& delta = call.shape(1);
  need(x.rank() >= 1 && delta.rank() == 2, "the gradient of the logits must be [classes, rows]");
  need(may_equal(leading(x, 1).elements(), delta[1]), "the gradient of the logits must have the rows of the input");
  need(!is_known_beyond(delta[1], x[-1]), "takes no more rows than features");
  const std::int64_t first = call.attrs.integer("first");
  const std::int64_t count = call.attrs.integer("count");
  need(first >= 0 && count >= 1 && !is_known_beyond(first + count, delta[0]), "first and count must be classes");
  return {{DType::kF32, {count, x[-1]}}};
}

double flops(const OpCall& call) {
  const VocabShape s = vocab_shape(call);
  return 6.0 * static_cast<double>(s.rows) * static_cast<double>(s.in) * static_cast<double>(s.classes.classes);
}

// Without the weight's product.
double flops_delta(const OpCall& call) { return flops(call) / 3 * 2; }
double flops_weight(const OpCall& call) {
  return 2.0 * static_cast<double>(call.in(0).elements()) * static_cast<double>(call.outputs[0].shape.size(0));
}
// Of the logits' gradient some rows only.
double traffic_weight(const OpCall& call) {
  const std::int64_t delta = call.shape(1).size(1) * call.outputs[0].shape.size(0);
  return static_cast<double>(call.in(0).bytes() + call.outputs[0].bytes() + delta * sizeof(float));
}

template <MakePrepared kPrepare>
Prepared onednn(const OpCall& call) {
  return vocab_onednn != nullptr ? vocab_onednn(call, kPrepare) : not_linked();
}
template <MakePrepared kPrepare>
Prepared own(const OpCall& call) {
  return vocab_own(call, kPrepare);
}

constexpr KernelEntry kKernels[] = {{"cuda", DeviceKind::kCuda, linear_loss_cuda},
                                    {"onednn", DeviceKind::kCpu, onednn<vocab_loss_by>},
                                    {"simd", DeviceKind::kCpu, own<vocab_loss_by>},
                                    {"ref", DeviceKind::kCpu, vocab_loss_ref}};
constexpr KernelEntry kDelta[] = {{"cuda", DeviceKind::kCuda, vocab_delta_cuda},
                                  {"onednn", DeviceKind::kCpu, onednn<vocab_loss_by>},
                                  {"simd", DeviceKind::kCpu, own<vocab_loss_by>},
                                  {"ref", DeviceKind::kCpu, vocab_delta_ref}};
constexpr KernelEntry kWeight[] = {{"cuda", DeviceKind::kCuda, vocab_weight_cuda},
                                   {"onednn", DeviceKind::kCpu, onednn<vocab_weight_by>},
                                   {"simd", DeviceKind::kCpu, own<vocab_weight_by>},
                                   {"ref", DeviceKind::kCpu, vocab_weight_ref}};

}  // namespace

VocabShape delta_shape(const Shape& x, const Shape& delta) {
  VocabShape out{.rows = delta.size(1), .in = x.size(-1)};
  out.classes.classes = delta.size(0);
  return out;
}

DeltaPlaces delta_places(const VocabShape& s) {
  return {.rows = s.rows, .classes = s.classes.classes, .tile = s.tile()};
}

VocabShape vocab_shape(const OpCall& call) {
  const ClassRows classes = class_rows(need_linear(call), call, 3);
  return {.rows = classes.rows,
          .in = call.shape(1).size(1),
          .classes = classes,
          .bias = call.has(2),
          .mean = is_mean(call.attrs),
          .tf32 = is_tf32(call.attrs)};
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

extern constinit const OpDef vocab_delta = {.name = "vocab_delta",
                                            .infer = infer_delta,
                                            .kernels = kDelta,
                                            .kernel_count = std::size(kDelta),
                                            .flops = flops_delta,
                                            .optional_outputs = 0b1000};
extern constinit const OpDef vocab_weight = {.name = "vocab_weight",
                                             .infer = infer_weight,
                                             .kernels = kWeight,
                                             .kernel_count = std::size(kWeight),
                                             .flops = flops_weight,
                                             .traffic = traffic_weight};

}  // namespace neap::ops
