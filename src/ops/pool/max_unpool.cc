// max_unpool(x [N, (D, H,) W, C], indices; shape) -> y: zeros of `shape` with each element of x where ONNX's indices
// (i64, of x's shape) say: flat ones into y seen as [N, C, (D, H,) W]. Of several at one place the last one stays.
// max_unpool_grad(dy, indices; shape) -> dx. f32.
#include <algorithm>

#include "ops/matmul/checks.h"
#include "ops/pool/pool.h"
#include "ops/pool/unpool_places.h"

namespace neap::ops {
namespace {

void check(const OpCall& call, const Shape& x, const Shape& y) {
  need_f32(call, 0);
  need(call.in(1).dtype == DType::kI64, "the indices must be i64");
  spatial_axes(x);
  need(y.rank() == x.rank() && may_equal(x[0], y[0]) && may_equal(x[-1], y[-1]), "shape does not fit x");
  need_same_shape(call.shape(1), x, "one index an element");
}

Types infer(const OpCall& call) {
  const Shape y = call.attrs.shape("shape");
  check(call, call.shape(0), y);
  return {{DType::kF32, y}};
}

Types infer_grad(const OpCall& call) {
  check(call, call.shape(1), call.attrs.shape("shape"));
  need_same_shape(call.shape(0), call.attrs.shape("shape"), "the gradient must have the output's shape");
  return {{DType::kF32, call.shape(1)}};
}

Values gradient(GradientCall& c) { return {c.g("max_unpool_grad", {c.dy[0], c.x(1)}, c.node.attrs), Value{}}; }

std::int64_t place_of(const UnpoolPlaces& p, std::int64_t index) {
  if (!p.fits(index)) throw UserError(fmt::format("max_unpool: index {} is outside of [0, {})", index, p.elements));
  return p.at(index);
}

Prepared ref(const OpCall& call) {
  return function_kernel([p = UnpoolPlaces(call.shape(0), call.outputs[0].shape)](const Buffers& b) {
    std::fill_n(b.out<float>(0), p.elements, 0.0F);
    const auto* indices = b.in<std::int64_t>(1);
    for (std::int64_t i = 0; i < p.entries; ++i) b.out<float>(0)[place_of(p, indices[i])] = b.in<float>(0)[i];
  });
}

Prepared ref_grad(const OpCall& call) {
  return function_kernel([p = UnpoolPlaces(call.shape(1), call.shape(0))](const Buffers& b) {
    const auto* indices = b.in<std::int64_t>(1);
    for (std::int64_t i = 0; i < p.entries; ++i) b.out<float>(0)[i] = b.in<float>(0)[place_of(p, indices[i])];
  });
}

constexpr KernelEntry kForward[] = {{"cuda", DeviceKind::kCuda, max_unpool_cuda}, {"ref", DeviceKind::kCpu, ref}};
constexpr KernelEntry kBackward[] = {{"cuda", DeviceKind::kCuda, max_unpool_grad_cuda},
                                     {"ref", DeviceKind::kCpu, ref_grad}};

}  // namespace

extern constinit const OpDef max_unpool = {.name = "max_unpool",
                                           .infer = infer,
                                           .gradient = gradient,
                                           .kernels = kForward,
                                           .kernel_count = std::size(kForward)};
extern constinit const OpDef max_unpool_grad = {
    .name = "max_unpool_grad", .infer = infer_grad, .kernels = kBackward, .kernel_count = std::size(kBackward)};

}  // namespace neap::ops
