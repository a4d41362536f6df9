// Batch norm behind its statistics (batch_stats, frozen_stats), so that y is cheap to make again:
//   batch_norm_apply(x [..., C], mean, rstd, scale, bias, residual?; relu) -> y, mask
//     y = scale * rstd * (x - mean) + bias [+ residual], [relu]; mask (bits) says where y > 0
//   batch_norm_grad(dy, x, mean, rstd, scale, mask?, bias?; relu, frozen) -> dx, dscale, dbias, dresidual
//     with relu the gate is the mask or, from the bias, the sign of the same formula made again
//   batch_norm_frozen_grad(dy, rstd, scale, mask?) -> dx, dresidual: statistics, scale and bias are not trained
#include "ops/batch_norm/batch_norm.h"

#include <fmt/format.h>

#include "core/bytes.h"
#include "neap/error.h"

namespace neap::ops {
namespace {

bool has_relu(const Attrs& attrs) { return attrs.integer("relu", 0) != 0; }
bool is_frozen(const Attrs& attrs) { return attrs.integer("frozen", 0) != 0; }

Types infer(const OpCall& call) {
  const TensorType& x = call.in(0);
  if (x.dtype != DType::kF32 || x.shape.rank() < 2) throw UserError("takes f32[..., C]");
  for (const std::size_t i : {1, 2, 3, 4}) call.in(i);
  expect_channels(call, {1, 2, 3, 4}, x.shape[-1]);
  if (call.has(5) && !(call.in(5) == x)) throw UserError("the residual must have x's type");
  return {x, {DType::kBits, x.shape}};
}

void expect_mask(const OpCall& call, std::size_t input) {
  if (call.has(input) && !(call.in(input) == TensorType{DType::kBits, call.shape(0)})) {
    throw UserError("the mask must have a bit for each element of dy");
  }
}

Types infer_grad(const OpCall& call) {
  const TensorType& dy = call.in(kDy);
  if (dy.dtype != DType::kF32 || dy.shape.rank() < 2 || !(call.in(kX) == dy)) throw UserError("takes f32[..., C]");
  for (const std::size_t i : {kMean, kRstd, kScale}) call.in(i);
  expect_channels(call, {kMean, kRstd, kScale, kBias}, dy.shape[-1]);
  expect_mask(call, kMask);
  if (has_relu(call.attrs) && !call.has(kMask) && !call.has(kBias)) throw UserError("relu needs a mask or the bias");
  return {dy, call.in(kScale), call.in(kScale), dy};
}

Types infer_frozen_grad(const OpCall& call) {
  const TensorType& dy = call.in(0);
  if (dy.dtype != DType::kF32 || dy.shape.rank() < 2) throw UserError("takes f32[..., C]");
  for (const std::size_t i : {1, 2}) call.in(i);
  expect_channels(call, {1, 2}, dy.shape[-1]);
  expect_mask(call, 3);
  return {dy, dy};
}

// Do mean and rstd come from batch_stats of the same x?
bool uses_batch_stats(const GradientCall& c) {
  const Graph& graph = c.g.graph();
  const NodeId producer = graph.at(c.x(1)).producer;
  if (!producer) return false;
  const Node& stats = graph.at(producer);
  return stats.op->name == "batch_stats" && stats.inputs[0] == c.x(0) && stats.outputs[0] == c.x(1) &&
         stats.outputs[1] == c.x(2);
}

Value residual_gradient(const GradientCall& c, Value gated) { return has_relu(c.node.attrs) ? gated : c.dy[0]; }

// Nothing but dx and the residual's gradient is wanted, and these do not need x.
Values gradient_without_x(GradientCall& c) {
  const Value mask = has_relu(c.node.attrs) ? c.y(1) : Value{};
  Values dx(c.node.inputs.size());
  if (!c.wants(0) && !has_relu(c.node.attrs)) {
    dx[5] = c.dy[0];
    return dx;
  }
  const Values made = c.g.add("batch_norm_frozen_grad", {c.dy[0], c.x(2), c.x(3), mask});
  dx[0] = made[0];
  if (c.wants(5)) dx[5] = residual_gradient(c, made[1]);
  return dx;
}

// With a residual the gate is the mask; else it is made again from x, which is needed anyway. With batch statistics dx
// includes their way back, and mean and rstd get none; statistics that come from elsewhere get their gradients.
Values gradient(GradientCall& c) {
  const bool is_trained = uses_batch_stats(c);
  const bool has_others = !is_trained && (c.wants(1) || c.wants(2));
  if (!is_trained && !has_others && !c.wants(3) && !c.wants(4)) return gradient_without_x(c);
  const bool relu = has_relu(c.node.attrs);
  const Value mask = relu && c.x(5) ? c.y(1) : Value{};
  const Value bias = relu && !c.x(5) ? c.x(4) : Value{};
  const Attrs attrs{{"relu", static_cast<std::int64_t>(relu)}, {"frozen", static_cast<std::int64_t>(!is_trained)}};
  const Values made = c.g.add("batch_norm_grad", {c.dy[0], c.x(0), c.x(1), c.x(2), c.x(3), mask, bias}, attrs);
  Values dx(c.node.inputs.size());
  dx[0] = made[0];
  dx[3] = made[1];
  dx[4] = made[2];
  if (has_others) {
    const Values stats = c.g.add("batch_norm_stats_grad", {c.x(3), c.x(2), made[1], made[2]});
    dx[1] = stats[0];
    dx[2] = stats[1];
  }
  if (c.wants(5)) dx[5] = residual_gradient(c, made[3]);
  return dx;
}

// The large tensors are all f32, or all bf16.
std::optional<DType> one_type(const OpCall& call, std::initializer_list<std::size_t> inputs,
                              std::initializer_list<std::size_t> outputs) {
  const DType type = call.in(0).dtype;
  for (const std::size_t i : inputs) {
    if (call.has(i) && call.in(i).dtype != type) return std::nullopt;
  }
  for (const std::size_t o : outputs) {
    if (call.outputs[o].dtype != type) return std::nullopt;
  }
  return type;
}
constexpr const char* kMixture = "a mixture of types";

Prepared simd(const OpCall& call) {
  const auto type = one_type(call, {0, 5}, {0});
  if (!type) return Declined{kMixture};
  return function_kernel(
      [s = rows_of(call.shape(0)), relu = has_relu(call.attrs), narrow = *type == DType::kBF16](const Buffers& b) {
        columns_table().apply(s, {.x = b.in<void>(0),
                                  .residual = b.in<void>(5),
                                  .mean = {b.in<float>(1)},
                                  .rstd = {b.in<float>(2)},
                                  .scale = {b.in<float>(3)},
                                  .bias = {b.in<float>(4)},
                                  .relu = relu,
                                  .y = b.out<void>(0),
                                  .mask = b.out<std::uint8_t>(1),
                                  .is_narrow = narrow});
      });
}

// Where the workspace's pieces begin: the partial sums, then three tables of the second pass.
struct GradWorkspace {
  double* sums;
  float* k;
  static std::int64_t bytes(const Columns& s) { return align_up(partial_bytes(s)) + 3 * s.c * 4; }
  GradWorkspace(const Columns& s, std::byte* at)
      : sums(reinterpret_cast<double*>(at)), k(reinterpret_cast<float*>(at + align_up(partial_bytes(s)))) {}
};

// dscale, dbias, and the factors of dx = scale rstd (g - sum(g) / m - rstd^2 (x - mean) sum(g (x - mean)) / m).
void finish_sums(const Buffers& b, const Columns& s, const GradWorkspace& w) {
  const auto m = static_cast<double>(s.rows);
  for (std::int64_t c = 0; c < s.c; ++c) {
    const double rstd = b.in<float>(kRstd)[c];
    const double k0 = b.in<float>(kScale)[c] * rstd;
    if (b.outputs[1] != nullptr) b.out<float>(1)[c] = static_cast<float>(w.sums[s.c + c] * rstd);
    if (b.outputs[2] != nullptr) b.out<float>(2)[c] = static_cast<float>(w.sums[c]);
    w.k[c] = static_cast<float>(k0);
    w.k[s.c + c] = static_cast<float>(k0 * w.sums[c] / m);
    w.k[2 * s.c + c] = static_cast<float>(k0 * rstd * rstd * w.sums[s.c + c] / m);
  }
}

struct GradWay {
  bool relu, frozen, narrow;
};

void launch_grad(const Buffers& b, const Columns& s, const GradWay& way) {
  const GradWorkspace w(s, b.workspace);
  const auto* mask = b.in<std::uint8_t>(kMask);
  const ColumnGate gate = !way.relu ? ColumnGate::kOpen : mask != nullptr ? ColumnGate::kMask : ColumnGate::kSign;
  const ColumnGradient args = {.dy = b.in<void>(kDy),
                               .x = b.in<void>(kX),
                               .mask = mask,
                               .gate = gate,
                               .mean = {b.in<float>(kMean)},
                               .rstd = {b.in<float>(kRstd)},
                               .scale = {b.in<float>(kScale)},
                               .bias = {b.in<float>(kBias)},
                               .k0 = {w.k},
                               .k1 = {way.frozen ? nullptr : w.k + s.c},
                               .k2 = {way.frozen ? nullptr : w.k + 2 * s.c},
                               .dx = b.out<void>(0),
                               .g = b.out<void>(3),
                               .is_narrow = way.narrow};
  columns_table().sums(s, args, w.sums);
  columns_table().merge_sums(s, w.sums);
  finish_sums(b, s, w);
  if (args.dx != nullptr || args.g != nullptr) columns_table().gradient(s, args);
}

Prepared simd_grad(const OpCall& call) {
  const Columns s = rows_of(call.shape(kDy));
  if (s.rows == 0) return Declined{"no rows"};
  const auto type = one_type(call, {kDy, kX}, {0, 3});
  if (!type) return Declined{kMixture};
  const GradWay way = {has_relu(call.attrs), is_frozen(call.attrs), *type == DType::kBF16};
  return function_kernel([s, way](const Buffers& b) { launch_grad(b, s, way); }, GradWorkspace::bytes(s));
}

Prepared simd_frozen_grad(const OpCall& call) {
  const Columns s = rows_of(call.shape(0));
  const auto type = one_type(call, {0}, {0, 1});
  if (!type) return Declined{kMixture};
  return function_kernel(
      [s, narrow = *type == DType::kBF16](const Buffers& b) {
        auto* k = reinterpret_cast<float*>(b.workspace);
        for (std::int64_t c = 0; c < s.c; ++c) k[c] = b.in<float>(1)[c] * b.in<float>(2)[c];
        const auto* mask = b.in<std::uint8_t>(3);
        columns_table().gradient(s, {.dy = b.in<void>(0),
                                     .mask = mask,
                                     .gate = mask != nullptr ? ColumnGate::kMask : ColumnGate::kOpen,
                                     .k0 = {k},
                                     .dx = b.out<void>(0),
                                     .g = b.out<void>(1),
                                     .is_narrow = narrow});
      },
      s.c * 4);
}

double traffic_grad(const OpCall& call) {
  return 7.0 * static_cast<double>(call.in(kDy).bytes());  // dy and x are read twice
}

double flops(const OpCall& call) { return 3.0 * static_cast<double>(call.in(0).elements()); }
double flops_grad(const OpCall& call) { return 8.0 * static_cast<double>(call.in(0).elements()); }

constexpr KernelEntry kApply[] = {{"cuda-bf16", DeviceKind::kCuda, batch_norm_apply_bf16_cuda, true},
                                  {"cuda", DeviceKind::kCuda, batch_norm_apply_cuda},
                                  {"simd", DeviceKind::kCpu, simd, true},
                                  {"ref", DeviceKind::kCpu, batch_norm_apply_ref}};
constexpr KernelEntry kGrad[] = {{"cuda-bf16", DeviceKind::kCuda, batch_norm_grad_bf16_cuda, true},
                                 {"cuda", DeviceKind::kCuda, batch_norm_grad_cuda},
                                 {"simd", DeviceKind::kCpu, simd_grad, true},
                                 {"ref", DeviceKind::kCpu, batch_norm_grad_ref}};
constexpr KernelEntry kFrozenGrad[] = {{"cuda", DeviceKind::kCuda, batch_norm_frozen_grad_cuda},
                                       {"simd", DeviceKind::kCpu, simd_frozen_grad, true},
                                       {"ref", DeviceKind::kCpu, batch_norm_frozen_grad_ref}};
constexpr InOut kApplyInPlace[] = {{0, 0}, {5, 0}};
constexpr InOut kGradInPlace[] = {{kDy, 0}, {kX, 0}, {kDy, 3}, {kX, 3}};
constexpr InOut kFrozenInPlace[] = {{0, 0}, {0, 1}};

}  // namespace

extern constinit const OpDef batch_norm_apply = {.name = "batch_norm_apply",
                                                 .infer = infer,
                                                 .gradient = gradient,
                                                 .kernels = kApply,
                                                 .kernel_count = std::size(kApply),
                                                 .flops = flops,
                                                 .in_place = kApplyInPlace,
                                                 .optional_outputs = 0b10,
                                                 .cheap = true};

extern constinit const OpDef batch_norm_grad = {.name = "batch_norm_grad",
                                                .infer = infer_grad,
                                                .kernels = kGrad,
                                                .kernel_count = std::size(kGrad),
                                                .flops = flops_grad,
                                                .traffic = traffic_grad,
                                                .in_place = kGradInPlace,
                                                .optional_outputs = 0b1111};

extern constinit const OpDef batch_norm_frozen_grad = {.name = "batch_norm_frozen_grad",
                                                       .infer = infer_frozen_grad,
                                                       .kernels = kFrozenGrad,
                                                       .kernel_count = std::size(kFrozenGrad),
                                                       .in_place = kFrozenInPlace,
                                                       .optional_outputs = 0b11,
                                                       .cheap = true};

}  // namespace neap::ops
