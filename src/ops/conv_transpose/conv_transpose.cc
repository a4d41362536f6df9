// The transposed convolution: the data gradient of the convolution that leads from its output to its input.
//   conv_transpose(x [N, (D, H,) W, C], weight [C, (KD, KH,) KW, M / groups], bias? [M]) -> y [N, (OD, OH,) OW, M]
//   OH = (H - 1) * stride - pad_begin - pad_end + dilation * (KH - 1) + 1 + output_padding
// Attributes: strides, pads, dilations, groups as for conv; output_padding, one number a spatial axis.
#include "ops/conv_transpose/conv_transpose.h"

#include <fmt/format.h>

#include "neap/error.h"
#include "ops/product_math.h"

namespace neap::ops {
namespace {

Ints output_padding(const Attrs& attrs, int axes, const Window& window) {
  Ints extra = attrs.ints("output_padding", Ints(static_cast<std::size_t>(axes), 0));
  if (static_cast<int>(extra.size()) != axes) throw UserError(fmt::format("output_padding needs {} numbers", axes));
  for (int i = 0; i < axes; ++i) {
    const WindowAxis& axis = window.axis(i, axes);
    const std::int64_t e = extra[static_cast<std::size_t>(i)];
    if (e < 0 || e >= std::max(axis.stride, axis.dilation)) {
      throw UserError(fmt::format("output_padding {} must be less than the stride or the dilation", e));
    }
  }
  return extra;
}

Dim spread(const Dim& in, const WindowAxis& axis, std::int64_t extra) {
  const std::int64_t grows = axis.extent() + extra - axis.pad_begin - axis.pad_end;
  if (!in.is_number()) return grows == axis.stride ? in * Dim(axis.stride) : Dim::unknown();
  const std::int64_t out = (in.number() - 1) * axis.stride + grows;
  if (out < 1) throw UserError(fmt::format("pads leave nothing of {} positions", in.text()));
  return out;
}

Types infer(const OpCall& call) {
  expect_f32(call);
  const Shape& x = call.shape(0);
  const Shape& weight = call.shape(1);
  const int axes = spatial_axes(x);
  if (weight.rank() != x.rank() || !weight.is_static() || !(weight[0] == x[-1])) {
    throw UserError(
        fmt::format("the weight {} must be fixed and start with x's {} channels", weight.text(), x[-1].text()));
  }
  const Dim channels = weight[-1] * Dim(call.attrs.integer("groups", 1));
  groups_of(call.attrs, x[-1], channels);
  if (call.has(2) && !(call.shape(2) == Shape{channels})) {
    throw UserError(fmt::format("the bias must be [{}]", channels.text()));
  }
  const Window window = window_of(call.attrs, kernel_of(weight));
  const Ints extra = output_padding(call.attrs, axes, window);
  Shape y{x[0]};
  for (int i = 0; i < axes; ++i)
    y.push_back(spread(x[1 + i], window.axis(i, axes), extra[static_cast<std::size_t>(i)]));
  y.push_back(channels);
  return {{DType::kF32, y}};
}

// Those of the convolution from y to x, with exactly as many windows as x has positions: what output_padding added
// behind the end is cropped.
Attrs conv_attrs(const Attrs& attrs, int axes) {
  const auto count = static_cast<std::size_t>(axes);
  Ints pads = attrs.ints("pads", Ints(2 * count, 0));
  const Ints extra = attrs.ints("output_padding", Ints(count, 0));
  for (std::size_t i = 0; i < count; ++i) pads[count + i] -= extra[i];
  Attrs out{{"pads", pads}};
  for (const char* name : {"strides", "dilations"}) {
    if (attrs.has(name)) out.set(name, attrs.ints(name));
  }
  out.set("groups", attrs.integer("groups", 1));
  carry_math(attrs, out);
  return out;
}

Values gradient(GradientCall& c) {
  Values dx(c.node.inputs.size());
  const Shape weight = c.g.shape(c.x(1));
  const Attrs attrs = conv_attrs(c.node.attrs, weight.rank() - 2);
  if (c.wants(2)) dx[2] = c.g("sum_to", {c.dy[0]}, {{"shape", c.g.shape(c.x(2))}});
  if (c.wants(1)) {
    Attrs with_kernel = attrs;
    with_kernel.set("kernel", kernel_of(weight));
    dx[1] = c.g("conv_grad_weight", {c.dy[0], c.x(0)}, with_kernel);
  }
  if (c.wants(0)) dx[0] = c.g("conv", {c.dy[0], c.x(1)}, attrs);
  return dx;
}

ConvShape shape_of(const OpCall& c) {
  return conv_shape(c.outputs[0].shape, c.shape(1), c.shape(0), conv_attrs(c.attrs, c.shape(0).rank() - 2));
}

double flops(const OpCall& call) { return shape_of(call).flops(); }

Prepared onednn(const OpCall& call) {
  return conv_data_onednn != nullptr ? conv_data_onednn(shape_of(call)) : not_linked();
}

Prepared cuda(const OpCall& call) {
  return conv_transpose_cuda != nullptr ? conv_transpose_cuda(shape_of(call)) : not_linked();
}

Prepared ref(const OpCall& call) {
  return function_kernel([s = shape_of(call)](const Buffers& b) {
    conv_data_ref(s, b.in<float>(0), b.in<float>(1), b.in<float>(2), b.out<float>(0));
  });
}

constexpr KernelEntry kKernels[] = {
    {"cuda", DeviceKind::kCuda, cuda}, {"onednn", DeviceKind::kCpu, onednn}, {"ref", DeviceKind::kCpu, ref}};

}  // namespace

extern constinit const OpDef conv_transpose = {.name = "conv_transpose",
                                               .infer = infer,
                                               .gradient = gradient,
                                               .kernels = kKernels,
                                               .kernel_count = std::size(kKernels),
                                               .flops = flops};

}  // namespace neap::ops
