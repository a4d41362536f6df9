// The optimizers' steps, which change the parameter and its moments in one pass:
//   sgd_update(param, grad, momentum?, hyper, clip?; nesterov)
//   adam_update, adamw_update(param, grad, m, v, hyper, clip?)
// As PyTorch's SGD (dampening 0), Adam (decay as L2) and AdamW (decay apart).
#include "ops/update/update.h"

#include <fmt/format.h>

#include <cmath>

#include "neap/error.h"

namespace neap::ops {
namespace {

// State, gradient and parameter alike, then hyper and clip.
void check(const OpCall& call, std::size_t hyper) {
  for (std::size_t i = 0; i < hyper; ++i) {
    if (!call.has(i) && call.op->name == "sgd_update" && i == 2) continue;
    if (call.in(i).dtype != DType::kF32) throw UserError(fmt::format("input {} must be f32", i));
    if (!(call.shape(i) == call.shape(0))) throw UserError(fmt::format("input {} must have the parameter's shape", i));
  }
  if (!(call.in(hyper) == TensorType{DType::kF32, {8}})) throw UserError("hyper must be f32[8]");
  if (!call.has(hyper + 1)) return;
  const TensorType& clip = call.in(hyper + 1);
  const bool fits = clip == TensorType{DType::kF32, {1}} || clip == TensorType{DType::kF32, {2}};
  if (!fits) throw UserError("clip must be f32[1], or the f32[2] of clip_scale");
}

Types infer_sgd(const OpCall& call) {
  check(call, 3);
  if (call.attrs.integer("nesterov", 0) != 0 && !call.has(2)) throw UserError("nesterov needs momentum");
  return {};
}

Types infer_adam(const OpCall& call) {
  check(call, 4);
  return {};
}

Prepared sgd_simd(const OpCall& call) {
  return function_kernel(
      [n = call.in(0).elements(), nesterov = call.attrs.integer("nesterov", 0) != 0](const Buffers& b) {
        if (is_put_off(b.in<float>(3))) return;
        const SgdStep step = sgd_step(b.in<float>(3), b.in<float>(4), nesterov);
        if (b.in<float>(2) != nullptr) {
          update_table().sgd_momentum(b.state<float>(0), b.in<float>(1), b.state<float>(2), n, step);
        } else {
          update_table().sgd(b.state<float>(0), b.in<float>(1), n, step);
        }
      });
}

Prepared adam_simd(const OpCall& call) {
  return function_kernel([n = call.in(0).elements(), decoupled = call.op->name == "adamw_update"](const Buffers& b) {
    if (is_put_off(b.in<float>(4))) return;
    const AdamStep step = adam_step(b.in<float>(4), b.in<float>(5), decoupled);
    update_table().adam(b.state<float>(0), b.in<float>(1), b.state<float>(2), b.state<float>(3), n, step);
  });
}

// Each operand that changes is read and written.
double traffic(const OpCall& call) {
  double bytes = 0;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (call.has(i)) bytes += static_cast<double>(call.in(i).bytes());
  }
  for (const std::uint8_t i : call.op->mutates) {
    if (call.has(i)) bytes += static_cast<double>(call.in(i).bytes());
  }
  return bytes;
}
double sgd_flops(const OpCall& call) { return 6 * static_cast<double>(call.in(0).elements()); }
double adam_flops(const OpCall& call) { return 15 * static_cast<double>(call.in(0).elements()); }

constexpr KernelEntry kSgd[] = {
    {"cuda", DeviceKind::kCuda, sgd_cuda}, {"simd", DeviceKind::kCpu, sgd_simd}, {"ref", DeviceKind::kCpu, sgd_ref}};
constexpr KernelEntry kAdam[] = {
    {"cuda", DeviceKind::kCuda, adam_cuda}, {"simd", DeviceKind::kCpu, adam_simd}, {"ref", DeviceKind::kCpu, adam_ref}};
constexpr std::uint8_t kSgdState[] = {0, 2};
constexpr std::uint8_t kAdamState[] = {0, 2, 3};

constexpr OpDef adam(std::string_view name) {
  return {.name = name,
          .infer = infer_adam,
          .kernels = kAdam,
          .kernel_count = std::size(kAdam),
          .flops = adam_flops,
          .traffic = traffic,
          .mutates = kAdamState};
}

// 1 - beta needs digits that f32 has lost (0.999 is stored as 0.99900001). People write betas with few decimals:
// those come back exactly.
double one_minus(float beta) { return 1 - std::nearbyint(static_cast<double>(beta) * 1e7) / 1e7; }

}  // namespace

SgdStep sgd_step(const float* hyper, const float* clip, bool nesterov) {
  const float scale = hyper[7] * (clip != nullptr ? clip[0] : 1.0F);
  return {.rate = hyper[0], .momentum = hyper[1], .decay = hyper[4], .scale = scale, .nesterov = nesterov};
}

AdamStep adam_step(const float* hyper, const float* clip, bool decoupled) {
  const double rate = hyper[0];
  const double decay = hyper[4];
  return {.rate = static_cast<float>(rate / hyper[5]),
          .keep = decoupled ? static_cast<float>(1 - rate * decay) : 1.0F,
          .decay = decoupled ? 0.0F : hyper[4],
          .beta1 = hyper[1],
          .rest1 = static_cast<float>(one_minus(hyper[1])),
          .beta2 = hyper[2],
          .rest2 = static_cast<float>(one_minus(hyper[2])),
          .root2 = std::sqrt(hyper[6]),
          .eps = hyper[3],
          .scale = hyper[7] * (clip != nullptr ? clip[0] : 1.0F)};
}

extern constinit const OpDef sgd_update = {.name = "sgd_update",
                                           .infer = infer_sgd,
                                           .kernels = kSgd,
                                           .kernel_count = std::size(kSgd),
                                           .flops = sgd_flops,
                                           .traffic = traffic,
                                           .mutates = kSgdState};
extern constinit const OpDef adam_update = adam("adam_update");
extern constinit const OpDef adamw_update = adam("adamw_update");

}  // namespace neap::ops
