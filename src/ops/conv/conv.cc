// Convolution over one, two or three spatial axes, channels last, and its gradients.
//   conv(x [N, (D, H,) W, C], weight [O, (KD, KH,) KW, C / groups], bias? [O]) -> y [N, (OD, OH,) OW, O]
//   conv_grad_weight(x, dy; kernel, bias) -> dw, db when the attribute bias is 1
//   conv_grad_data(dy, weight; shape, lean = 0) -> dx; lean: without a copy of the weight, where there is such a kernel
// Attributes of all three: strides, pads (begins, then ends; negative ones crop), dilations, groups.
#include "ops/conv/conv.h"

#include <fmt/format.h>

#include "neap/error.h"
#include "ops/conv/conv_windows.h"
#include "ops/convert_kernel.h"
#include "ops/product_math.h"

namespace neap::ops {

void expect_f32(const OpCall& call) {
  for (const auto& input : call.inputs) {
    if (input && input->dtype != DType::kF32) throw UserError(fmt::format("takes f32, not {}", name(input->dtype)));
  }
}

Ints kernel_of(const Shape& weight) {
  Ints kernel;
  for (int i = 1; i + 1 < weight.rank(); ++i) kernel.push_back(weight.size(i));
  return kernel;
}

std::int64_t groups_of(const Attrs& attrs, const Dim& in_channels, const Dim& out_channels) {
  const std::int64_t groups = attrs.integer("groups", 1);
  for (const Dim& channels : {in_channels, out_channels}) {
    const bool divides = groups >= 1 && channels.is_number() && channels.number() % groups == 0;
    if (!divides) throw UserError(fmt::format("{} groups do not divide {} channels", groups, channels.text()));
  }
  return groups;
}

ConvShape conv_shape(const Shape& x, const Shape& weight, const Shape& y, const Attrs& attrs) {
  const Plane in = plane_of(x);
  const Plane out = plane_of(y);
  return {.n = x.size(0),
          .is_volume = x.rank() == 5,
          .d = in.d,
          .h = in.h,
          .w = in.w,
          .c = x.size(-1),
          .od = out.d,
          .oh = out.h,
          .ow = out.w,
          .o = y.size(-1),
          .groups = attrs.integer("groups", 1),
          .window = window_of(attrs, kernel_of(weight)),
          .tf32 = is_tf32(attrs)};
}

double ConvShape::flops() const {
  const std::int64_t per_group = c / groups;
  return 2.0 * static_cast<double>(n * od * oh * ow * o) *
         static_cast<double>(window.d.kernel * window.h.kernel * window.w.kernel * per_group);
}

namespace {

Shape convolved(const Shape& x, const Dim& out_channels, const Window& window) {
  const int axes = spatial_axes(x);
  Shape y{x[0]};
  for (int i = 0; i < axes; ++i) y.push_back(window_positions(x[1 + i], window.axis(i, axes)));
  y.push_back(out_channels);
  return y;
}

Types infer(const OpCall& call) {
  expect_f32(call);
  const Shape& x = call.shape(0);
  const Shape& weight = call.shape(1);
  spatial_axes(x);
  if (weight.rank() != x.rank()) {
    throw UserError(fmt::format("the weight {} needs as many axes as {}", weight.text(), x.text()));
  }
  if (!weight.is_static()) throw UserError("the weight's shape must be fixed");
  const std::int64_t groups = groups_of(call.attrs, x[-1], weight[0]);
  if (!(weight[-1] * Dim(groups) == x[-1])) {
    throw UserError(
        fmt::format("x has {} channels, the weight {} in {} groups", x[-1].text(), weight[-1].text(), groups));
  }
  if (call.has(2) && !(call.shape(2) == Shape{weight[0]})) {
    throw UserError(fmt::format("the bias must be [{}]", weight[0].text()));
  }
  return {{DType::kF32, convolved(x, weight[0], window_of(call.attrs, kernel_of(weight)))}};
}

Types infer_weight(const OpCall& call) {
  expect_f32(call);
  const Shape& x = call.shape(0);
  const Shape& dy = call.shape(1);
  const Ints kernel = call.attrs.ints("kernel");
  const bool fits = dy.rank() == x.rank() && static_cast<int>(kernel.size()) == spatial_axes(x);
  if (!fits) throw UserError("x, dy and kernel do not fit");
  const std::int64_t groups = groups_of(call.attrs, x[-1], dy[-1]);
  window_of(call.attrs, kernel);
  Shape weight{dy[-1]};
  for (const std::int64_t k : kernel) weight.push_back(k);
  weight.push_back(x[-1].number() / groups);
  Types out = {{DType::kF32, weight}};
  if (call.attrs.integer("bias", 0) != 0) out.push_back({DType::kF32, {dy[-1]}});
  return out;
}

Types infer_data(const OpCall& call) {
  expect_f32(call);
  const Shape x = call.attrs.shape("shape");
  const bool fits = call.shape(0).rank() == x.rank() && call.shape(1).rank() == x.rank();
  if (!fits || !(call.shape(0)[-1] == call.shape(1)[0])) throw UserError("dy, weight and shape do not fit");
  groups_of(call.attrs, x[-1], call.shape(1)[0]);
  window_of(call.attrs, kernel_of(call.shape(1)));
  return {{DType::kF32, x}};
}

// The weight's gradient comes first: x, which only it reads, is free before dx is made.
Values gradient(GradientCall& c) {
  Values dx(c.node.inputs.size());
  const Shape weight = c.g.shape(c.x(1));
  if (c.wants(1)) {
    Attrs attrs = c.node.attrs;
    attrs.set("kernel", kernel_of(weight));
    attrs.set("bias", static_cast<std::int64_t>(c.wants(2)));
    const Values dw = c.g.add("conv_grad_weight", {c.x(0), c.dy[0]}, attrs);
    for (std::size_t i = 0; i < dw.size(); ++i) dx[1 + i] = dw[i];
  } else if (c.wants(2)) {
    dx[2] = c.g("sum_to", {c.dy[0]}, {{"shape", Shape{weight[0]}}});
  }
  if (c.wants(0)) {
    Attrs attrs = c.node.attrs;
    attrs.set("shape", c.g.shape(c.x(0)));
    dx[0] = c.g("conv_grad_data", {c.dy[0], c.x(1)}, attrs);
  }
  return dx;
}

ConvShape forward_shape(const OpCall& c) { return conv_shape(c.shape(0), c.shape(1), c.outputs[0].shape, c.attrs); }
ConvShape weight_shape(const OpCall& c) { return conv_shape(c.shape(0), c.outputs[0].shape, c.shape(1), c.attrs); }
ConvShape data_shape(const OpCall& c) { return conv_shape(c.outputs[0].shape, c.shape(1), c.shape(0), c.attrs); }

double flops(const OpCall& call) { return forward_shape(call).flops(); }
double weight_flops(const OpCall& call) { return weight_shape(call).flops(); }
double data_flops(const OpCall& call) { return data_shape(call).flops(); }

// Tensors may be bf16: all of them, but for a weight's gradient; on CUDA without a bias.
constexpr const char* kMixture = "a mixture of types";

bool is_mixture_but_bias(const OpCall& call, bool narrow_result) {
  if (!has_bf16(call)) return false;
  const bool is_result = (call.outputs[0].dtype == DType::kBF16) == narrow_result;
  return !is_result || call.in(0).dtype != DType::kBF16 || call.in(1).dtype != DType::kBF16;
}
bool is_mixture(const OpCall& call, bool narrow_result) {
  return is_mixture_but_bias(call, narrow_result) || (has_bf16(call) && call.has(2));
}

ConvShape typed(ConvShape s, const OpCall& call) {
  s.type = call.in(0).dtype;
  if (call.has(2)) s.bias_type = call.in(2).dtype;
  return s;
}

Prepared onednn(const OpCall& call) {
  if (is_mixture_but_bias(call, true)) return Declined{kMixture};
  return conv_forward_onednn != nullptr ? conv_forward_onednn(typed(forward_shape(call), call), call.has(2))
                                        : not_linked();
}
Prepared weight_onednn(const OpCall& call) {
  if (is_mixture(call, false)) return Declined{kMixture};
  return conv_weight_onednn != nullptr ? conv_weight_onednn(typed(weight_shape(call), call), call.outputs.size() > 1)
                                       : not_linked();
}
Prepared data_onednn(const OpCall& call) {
  if (is_mixture(call, true)) return Declined{kMixture};
  return conv_data_onednn != nullptr ? conv_data_onednn(typed(data_shape(call), call)) : not_linked();
}

Prepared data_lean(const OpCall& call) {
  if (call.attrs.integer("lean", 0) == 0) return Declined{"not asked for"};
  return has_bf16(call) ? Prepared(Declined{kMixture}) : conv_data_windows(data_shape(call));
}

Prepared product(const OpCall& call) {
  if (is_mixture(call, true)) return Declined{kMixture};
  return conv_forward_product != nullptr ? conv_forward_product(typed(forward_shape(call), call), call.has(2))
                                         : not_linked();
}
Prepared weight_product(const OpCall& call) {
  if (is_mixture(call, false)) return Declined{kMixture};
  return conv_weight_product != nullptr ? conv_weight_product(typed(weight_shape(call), call)) : not_linked();
}
Prepared data_product(const OpCall& call) {
  if (is_mixture(call, true)) return Declined{kMixture};
  return conv_data_product != nullptr ? conv_data_product(typed(data_shape(call), call)) : not_linked();
}
Prepared cudnn(const OpCall& call) {
  if (is_mixture(call, true)) return Declined{kMixture};
  return conv_forward_cudnn != nullptr ? conv_forward_cudnn(typed(forward_shape(call), call), call.has(2))
                                       : not_linked();
}
Prepared weight_cudnn(const OpCall& call) {
  if (is_mixture(call, false) || (has_bf16(call) && call.outputs.size() > 1)) return Declined{kMixture};
  return conv_weight_cudnn != nullptr ? conv_weight_cudnn(typed(weight_shape(call), call)) : not_linked();
}
Prepared data_cudnn(const OpCall& call) {
  if (is_mixture(call, true)) return Declined{kMixture};
  return conv_data_cudnn != nullptr ? conv_data_cudnn(typed(data_shape(call), call)) : not_linked();
}
Prepared cuda(const OpCall& call) {
  return conv_forward_cuda != nullptr ? conv_forward_cuda(forward_shape(call)) : not_linked();
}
Prepared weight_cuda(const OpCall& call) {
  return conv_weight_cuda != nullptr ? conv_weight_cuda(weight_shape(call)) : not_linked();
}
Prepared data_cuda(const OpCall& call) {
  return conv_data_cuda != nullptr ? conv_data_cuda(data_shape(call)) : not_linked();
}

Prepared ref(const OpCall& call) {
  return function_kernel([s = forward_shape(call)](const Buffers& b) {
    conv_forward_ref(s, b.in<float>(0), b.in<float>(1), b.in<float>(2), b.out<float>(0));
  });
}

Prepared weight_ref(const OpCall& call) {
  return function_kernel([s = weight_shape(call)](const Buffers& b) {
    float* db = b.outputs.size() > 1 ? b.out<float>(1) : nullptr;
    conv_weight_ref(s, b.in<float>(0), b.in<float>(1), b.out<float>(0), db);
  });
}

Prepared data_ref(const OpCall& call) {
  return function_kernel([s = data_shape(call)](const Buffers& b) {
    conv_data_ref(s, b.in<float>(0), b.in<float>(1), nullptr, b.out<float>(0));
  });
}

constexpr KernelEntry kForward[] = {{"cublaslt", DeviceKind::kCuda, product, true},
                                    {"cudnn", DeviceKind::kCuda, cudnn, true},
                                    {"cuda", DeviceKind::kCuda, cuda},
                                    {"onednn", DeviceKind::kCpu, onednn, true},
                                    {"ref", DeviceKind::kCpu, ref}};
constexpr KernelEntry kWeight[] = {{"cublaslt", DeviceKind::kCuda, weight_product, true},
                                   {"cudnn", DeviceKind::kCuda, weight_cudnn, true},
                                   {"cuda", DeviceKind::kCuda, weight_cuda},
                                   {"onednn", DeviceKind::kCpu, weight_onednn, true},
                                   {"ref", DeviceKind::kCpu, weight_ref}};
constexpr KernelEntry kData[] = {{"cublaslt", DeviceKind::kCuda, data_product, true},
                                 {"cudnn", DeviceKind::kCuda, data_cudnn, true},
                                 {"cuda", DeviceKind::kCuda, data_cuda},
                                 {"lean", DeviceKind::kCpu, data_lean},
                                 {"onednn", DeviceKind::kCpu, data_onednn, true},
                                 {"ref", DeviceKind::kCpu, data_ref}};

}  // namespace

extern constinit const OpDef conv = {.name = "conv",
                                     .infer = infer,
                                     .gradient = gradient,
                                     .kernels = kForward,
                                     .kernel_count = std::size(kForward),
                                     .flops = flops};

extern constinit const OpDef conv_grad_weight = {.name = "conv_grad_weight",
                                                 .infer = infer_weight,
                                                 .kernels = kWeight,
                                                 .kernel_count = std::size(kWeight),
                                                 .flops = weight_flops};

extern constinit const OpDef conv_grad_data = {.name = "conv_grad_data",
                                               .infer = infer_data,
                                               .kernels = kData,
                                               .kernel_count = std::size(kData),
                                               .flops = data_flops};

}  // namespace neap::ops
