// lp_pool(x [N, (D, H,) W, C]; p = 2, kernel, strides, pads, dilations, ceil_mode) -> y: (sum of |x|^p)^(1/p) over each
// window. f32, no gradient.
//
// max_pool_indices(index; the attributes of the max_pool that gave it, shape, storage_order = 0) -> i64: the second
// output of max_pool (places inside the windows) as ONNX counts them, channels last like it: the flat index of the
// maximum in x seen as [N, C, (D, H,) W], with storage_order = 1 the spatial axes column by column. `shape` is that of
// x, channels last.
#include <cmath>

#include "neap/error.h"
#include "ops/conv/conv.h"
#include "ops/pool/pool_windows.h"

namespace neap::ops {
namespace {

Types infer_lp(const OpCall& call) {
  expect_f32(call);
  if (call.attrs.integer("p", 2) < 1) throw UserError("p must be positive");
  return {{DType::kF32, pooled(call.shape(0), call.attrs)}};
}

Types infer_indices(const OpCall& call) {
  const Shape y = pooled(call.attrs.shape("shape"), call.attrs);
  const bool fits = call.in(0).dtype == tap_type(call.attrs) && call.shape(0) == y;
  if (!fits) throw UserError("takes the second output of max_pool");
  return {{DType::kI64, y}};
}

Prepared lp_ref(const OpCall& call) {
  const auto power = static_cast<double>(call.attrs.integer("p", 2));
  return function_kernel([p = PoolWindows(call.shape(0), call.outputs[0].shape, call.attrs), power](const Buffers& b) {
    p.each_position([&](const Place& o, std::int64_t at, std::int64_t image) {
      for (std::int64_t c = 0; c < p.c; ++c) {
        double sum = 0;
        each_tap(p.window, p.in, o, [&](std::int64_t, std::int64_t pixel) {
          sum += std::pow(std::fabs(static_cast<double>(b.in<float>(0)[image + pixel * p.c + c])), power);
        });
        b.out<float>(0)[at + c] = static_cast<float>(std::pow(sum, 1 / power));
      }
    });
  });
}

Prepared indices_ref(const OpCall& call) {
  const bool wide = call.in(0).dtype == DType::kI32;
  const bool columns = call.attrs.integer("storage_order", 0) != 0;
  const PoolWindows windows(call.attrs.shape("shape"), call.shape(0), call.attrs);
  return function_kernel([p = windows, wide, columns](const Buffers& b) {
    const std::int64_t pixels = p.in.d * p.in.h * p.in.w;
    p.each_position([&](const Place& o, std::int64_t at, std::int64_t image) {
      for (std::int64_t c = 0; c < p.c; ++c) {
        const std::int64_t chosen = wide ? b.in<std::int32_t>(0)[at + c] : b.in<std::uint8_t>(0)[at + c];
        std::int64_t found = 0;
        each_tap(p.window, p.in, o, [&](std::int64_t tap, std::int64_t pixel) {
          if (tap == chosen) found = columns ? by_columns(p.in, pixel) : pixel;
        });
        b.out<std::int64_t>(0)[at + c] = image + c * pixels + found;
      }
    });
  });
}

double flops(const OpCall& call) {
  double taps = 20;
  for (const std::int64_t k : call.attrs.ints("kernel")) taps *= static_cast<double>(k);
  return taps * static_cast<double>(call.outputs[0].elements());
}

constexpr KernelEntry kLp[] = {{"cuda", DeviceKind::kCuda, lp_pool_cuda}, {"ref", DeviceKind::kCpu, lp_ref}};
constexpr KernelEntry kIndices[] = {{"cuda", DeviceKind::kCuda, max_pool_indices_cuda},
                                    {"ref", DeviceKind::kCpu, indices_ref}};

}  // namespace

extern constinit const OpDef lp_pool = {
    .name = "lp_pool", .infer = infer_lp, .kernels = kLp, .kernel_count = std::size(kLp), .flops = flops};
extern constinit const OpDef max_pool_indices = {
    .name = "max_pool_indices", .infer = infer_indices, .kernels = kIndices, .kernel_count = std::size(kIndices)};

}  // namespace neap::ops
