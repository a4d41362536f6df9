// mse, l1_loss, smooth_l1, bce_with_logits (x, y; reduction = mean | sum, beta = 1) -> loss []: sums of f(x, y) over
// elements of two tensors of one shape. Their gradients (dloss, x, y; wrt = 0 | 1) have that shape.
#include "ops/matmul/checks.h"
#include "ops/mse/pointwise.h"

namespace neap::ops {
namespace {

void check(const OpCall& call, std::size_t x) {
  need_f32(call, x);
  need_f32(call, x + 1);
  need_same_shape(call.shape(x), call.shape(x + 1), "the inputs must have the same shape");
  const std::string reduction = call.attrs.text("reduction", "mean");
  if (reduction != "mean" && reduction != "sum") throw UserError("reduction must be mean or sum, not " + reduction);
  need(call.attrs.real("beta", 1) >= 0, "beta must not be negative");
}

Types infer(const OpCall& call) {
  check(call, 0);
  return {{DType::kF32, {}}};
}

Types infer_grad(const OpCall& call) {
  check(call, 1);
  need_f32(call, 0);
  need(call.shape(0).rank() == 0, "the loss's gradient must be one number");
  const std::int64_t wrt = call.attrs.integer("wrt", 0);
  need(wrt == 0 || wrt == 1, "wrt must be 0 or 1");
  return {call.in(1)};
}

Values gradient(GradientCall& c) {
  Values dx(2);
  for (const std::int64_t i : {1, 0}) {
    if (!c.wants(static_cast<std::size_t>(i))) continue;
    Attrs attrs = c.node.attrs;
    attrs.set("wrt", i);
    dx[static_cast<std::size_t>(i)] = c.g(std::string(c.node.op->name) + "_grad", {c.dy[0], c.x(0), c.x(1)}, attrs);
  }
  return dx;
}

template <PointLoss kLoss>
Prepared simd(const OpCall& call) {
  const PointwiseCall p = pointwise_call(call, 0);
  const std::int64_t blocks = (p.n + kPointBlock - 1) / kPointBlock;
  const auto run = [c = p, blocks](const Buffers& b) {
    auto* sums = reinterpret_cast<double*>(b.workspace);
    pointwise_table().forward[static_cast<int>(kLoss)](b.in<float>(0), b.in<float>(1), c.n, c.beta, sums);
    double sum = 0;
    for (std::int64_t i = 0; i < blocks; ++i) sum += sums[i];
    *b.out<float>(0) = static_cast<float>(sum * c.scale);
  };
  return function_kernel(run, blocks * static_cast<std::int64_t>(sizeof(double)));
}

template <PointLoss kLoss>
Prepared simd_grad(const OpCall& call) {
  return function_kernel([c = pointwise_call(call, 1)](const Buffers& b) {
    const auto scale = static_cast<float>(*b.in<float>(0) * c.scale);
    pointwise_table().backward[static_cast<int>(kLoss)](b.in<float>(1), b.in<float>(2), c.n, c.beta, scale, c.by_y,
                                                        b.out<float>(0));
  });
}

template <PointLoss kLoss>
Prepared cuda(const OpCall& call) {
  return pointwise_cuda != nullptr ? pointwise_cuda(call, kLoss) : not_linked();
}

template <PointLoss kLoss>
Prepared cuda_grad(const OpCall& call) {
  return pointwise_grad_cuda != nullptr ? pointwise_grad_cuda(call, kLoss) : not_linked();
}

template <PointLoss kLoss>
Prepared ref(const OpCall& call) {
  return pointwise_ref(call, kLoss);
}

template <PointLoss kLoss>
Prepared ref_grad(const OpCall& call) {
  return pointwise_grad_ref(call, kLoss);
}

double flops(const OpCall& call) { return 3.0 * static_cast<double>(call.in(0).elements()); }

template <PointLoss kLoss>
constexpr KernelEntry kForward[] = {{"cuda", DeviceKind::kCuda, cuda<kLoss>},
                                    {"simd", DeviceKind::kCpu, simd<kLoss>},
                                    {"ref", DeviceKind::kCpu, ref<kLoss>}};
template <PointLoss kLoss>
constexpr KernelEntry kBackward[] = {{"cuda", DeviceKind::kCuda, cuda_grad<kLoss>},
                                     {"simd", DeviceKind::kCpu, simd_grad<kLoss>},
                                     {"ref", DeviceKind::kCpu, ref_grad<kLoss>}};
constexpr InOut kInPlace[] = {{1, 0}, {2, 0}};

template <PointLoss kLoss>
constexpr OpDef loss_op(std::string_view name) {
  return {.name = name,
          .infer = infer,
          .gradient = gradient,
          .kernels = kForward<kLoss>,
          .kernel_count = std::size(kForward<kLoss>),
          .flops = flops};
}

template <PointLoss kLoss>
constexpr OpDef grad_op(std::string_view name) {
  return {.name = name,
          .infer = infer_grad,
          .kernels = kBackward<kLoss>,
          .kernel_count = std::size(kBackward<kLoss>),
          .in_place = kInPlace,
          .cheap = true,
          .elementwise = true};
}

}  // namespace

PointwiseCall pointwise_call(const OpCall& call, std::size_t x) {
  const std::int64_t n = call.in(x).elements();
  const bool mean = call.attrs.text("reduction", "mean") == "mean" && n > 0;
  return {.n = n,
          .beta = static_cast<float>(call.attrs.real("beta", 1)),
          .scale = mean ? 1.0 / static_cast<double>(n) : 1.0,
          .by_y = call.attrs.integer("wrt", 0) == 1};
}

extern constinit const OpDef mse = loss_op<PointLoss::kSquare>("mse");
extern constinit const OpDef mse_grad = grad_op<PointLoss::kSquare>("mse_grad");
extern constinit const OpDef l1_loss = loss_op<PointLoss::kAbsolute>("l1_loss");
extern constinit const OpDef l1_loss_grad = grad_op<PointLoss::kAbsolute>("l1_loss_grad");
extern constinit const OpDef smooth_l1 = loss_op<PointLoss::kSmooth>("smooth_l1");
extern constinit const OpDef smooth_l1_grad = grad_op<PointLoss::kSmooth>("smooth_l1_grad");
extern constinit const OpDef bce_with_logits = loss_op<PointLoss::kLogistic>("bce_with_logits");
extern constinit const OpDef bce_with_logits_grad = grad_op<PointLoss::kLogistic>("bce_with_logits_grad");

}  // namespace neap::ops
