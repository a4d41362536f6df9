// conv_add_weight(x, dy, sum?; kernel, strides, pads, dilations) -> sum + conv_grad_weight(x, dy), in place: what a
// part of a batch adds to a weight's gradient takes no memory of its own. Over images, in one group, without a bias.
#include <algorithm>

#include "neap/error.h"
#include "ops/conv/conv_windows.h"

namespace neap::ops {
namespace {

Types infer(const OpCall& call) {
  expect_f32(call);
  const Shape& x = call.shape(0);
  const Shape& dy = call.shape(1);
  const Ints kernel = call.attrs.ints("kernel");
  const bool fits = x.rank() == 4 && dy.rank() == 4 && kernel.size() == 2 && x[-1].is_number();
  if (!fits || call.attrs.integer("groups", 1) != 1) throw UserError("takes images in one group: x, dy and a kernel");
  window_of(call.attrs, kernel);
  const TensorType weight = {DType::kF32, {dy[-1], kernel[0], kernel[1], x[-1]}};
  if (call.has(2) && !(call.in(2) == weight)) throw UserError("the sum must be " + weight.text());
  return {weight};
}

ConvShape shape_of(const OpCall& call) {
  return conv_shape(call.shape(0), call.outputs[0].shape, call.shape(1), call.attrs);
}

// x and dy are both f32 or both bf16; the sum is f32.
ConvShape typed_shape(const OpCall& call) {
  ConvShape s = shape_of(call);
  s.type = call.in(0).dtype;
  return s;
}
bool is_mixture(const OpCall& call) { return call.in(0).dtype != call.in(1).dtype; }
constexpr const char* kMixture = "a mixture of types";

Prepared product(const OpCall& call) {
  if (is_mixture(call)) return Declined{kMixture};
  return conv_add_weight_product != nullptr ? conv_add_weight_product(typed_shape(call), call.has(2)) : not_linked();
}
Prepared cudnn(const OpCall& call) {
  if (is_mixture(call)) return Declined{kMixture};
  return conv_add_weight_cudnn != nullptr ? conv_add_weight_cudnn(typed_shape(call), call.has(2)) : not_linked();
}
Prepared cuda(const OpCall& call) {
  return conv_add_weight_cuda != nullptr ? conv_add_weight_cuda(shape_of(call)) : not_linked();
}

Prepared simd(const OpCall& call) { return conv_add_weight_windows(shape_of(call), call.has(2)); }

Prepared ref(const OpCall& call) {
  const std::int64_t n = call.outputs[0].elements();
  return function_kernel(
      [s = shape_of(call), n, with_sum = call.has(2)](const Buffers& b) {
        auto* dw = reinterpret_cast<float*>(b.workspace);
        conv_weight_ref(s, b.in<float>(0), b.in<float>(1), dw, nullptr);
        for (std::int64_t i = 0; i < n; ++i) b.out<float>(0)[i] = (with_sum ? b.in<float>(2)[i] : 0) + dw[i];
      },
      n * static_cast<std::int64_t>(sizeof(float)));
}

double flops(const OpCall& call) { return shape_of(call).flops(); }

constexpr KernelEntry kKernels[] = {{"cublaslt", DeviceKind::kCuda, product, true},
                                    {"cudnn", DeviceKind::kCuda, cudnn, true},
                                    {"cuda", DeviceKind::kCuda, cuda},
                                    {"simd", DeviceKind::kCpu, simd},
                                    {"ref", DeviceKind::kCpu, ref}};
constexpr InOut kInPlace[] = {{2, 0}};

}  // namespace

extern constinit const OpDef conv_add_weight = {.name = "conv_add_weight",
                                                .infer = infer,
                                                .kernels = kKernels,
                                                .kernel_count = std::size(kKernels),
                                                .flops = flops,
                                                .in_place = kInPlace};

}  // namespace neap::ops
