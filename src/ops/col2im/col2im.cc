// col2im(x [N, C * taps, L]; image, kernel, strides, pads, dilations) -> y [N, image..., C]: the sum of the windows'
// columns, as ONNX's Col2Im with channels last in the RESULT; x is as in ONNX (a channel's taps lie together, L counts
// the windows). `image` has the sizes of the spatial axes (up to 16), `kernel` those of a window.
//
// im2col(y [N, image..., C]; kernel, strides, pads, dilations) -> x takes the columns out. Each is the other's
// gradient; f32.
#include "ops/col2im/col2im.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "ops/matmul/checks.h"

namespace neap::ops {
namespace {

void multiply(std::int64_t& product, std::int64_t size) {
  need(!__builtin_mul_overflow(product, size, &product), "the sizes are too large");
}

// From the attributes, for an image of these sizes.
WindowColumns columns_of(const Attrs& attrs, const Ints& image) {
  WindowColumns c;
  const std::size_t axes = image.size();
  const Ints kernel = attrs.ints("kernel");
  const Ints strides = attrs.ints("strides", Ints(axes, 1));
  const Ints dilations = attrs.ints("dilations", Ints(axes, 1));
  const Ints pads = attrs.ints("pads", Ints(2 * axes, 0));
  need(axes >= 1 && kernel.size() == axes && strides.size() == axes && dilations.size() == axes &&
           pads.size() == 2 * axes,
       "image, kernel, strides, dilations and pads do not fit each other");
  need(axes <= WindowColumns::kMostAxes, "there are too many axes");
  c.axes = static_cast<int>(axes);
  for (std::size_t i = 0; i < axes; ++i) {
    for (const std::int64_t size : {image[i], kernel[i], strides[i], dilations[i]}) {
      need(size >= 1 && size < (std::int64_t{1} << 30), "sizes must be positive");
    }
    need(std::abs(pads[i]) < (1 << 30) && std::abs(pads[axes + i]) < (1 << 30), "the pads are too large");
    const std::int64_t room = image[i] + pads[i] + pads[axes + i] - dilations[i] * (kernel[i] - 1) - 1;
    need(room >= 0, "the window is larger than the image");
    c.image[i] = image[i];
    c.kernel[i] = kernel[i];
    c.strides[i] = strides[i];
    c.dilations[i] = dilations[i];
    c.steps[i] = strides[i] / std::gcd(strides[i], dilations[i]);
    c.begins[i] = pads[i];
    c.windows[i] = room / strides[i] + 1;
    multiply(c.pixels, c.image[i]);
    multiply(c.taps, c.kernel[i]);
    multiply(c.count, c.windows[i]);
  }
  return c;
}

Types infer(const OpCall& call) {
  need_f32(call, 0);
  const Shape& x = call.shape(0);
  need(x.rank() == 3 && x[1].is_number(), "takes [N, C * taps, L]");
  const Ints image = call.attrs.ints("image");
  const WindowColumns columns = columns_of(call.attrs, image);
  need(x[1].number() % columns.taps == 0, "the second axis must be channels * taps");
  need(may_equal(x[2], columns.count), "the third axis must have one entry a window");
  Shape y{x[0]};
  for (const std::int64_t size : image) y.push_back(size);
  y.push_back(x[1].number() / columns.taps);
  return {{DType::kF32, y}};
}

Ints spatial(const Shape& image) {
  need(image.rank() >= 3, "takes [N, sizes..., C]");
  Ints sizes;
  for (int i = 1; i + 1 < image.rank(); ++i) sizes.push_back(image[i].is_number() ? image.size(i) : 0);
  return sizes;
}

Types infer_back(const OpCall& call) {
  need_f32(call, 0);
  const Shape& y = call.shape(0);
  const WindowColumns columns = columns_of(call.attrs, spatial(y));
  return {{DType::kF32, {y[0], y[-1] * Dim(columns.taps), columns.count}}};
}

Attrs window_attrs(const Attrs& attrs) {
  Attrs out;
  for (const char* name : {"kernel", "strides", "pads", "dilations"}) {
    if (attrs.has(name)) out.set(name, attrs.ints(name));
  }
  return out;
}

Values gradient(GradientCall& c) { return {c.g("im2col", {c.dy[0]}, window_attrs(c.node.attrs))}; }

Values gradient_back(GradientCall& c) {
  Attrs attrs = window_attrs(c.node.attrs);
  attrs.set("image", spatial(c.g.shape(c.x(0))));
  return {c.g("col2im", {c.dy[0]}, attrs)};
}

Prepared ref(const OpCall& call) {
  return function_kernel([c = window_columns(call, call.outputs[0].shape)](const Buffers& b) {
    std::fill_n(b.out<float>(0), c.image_elements(), 0.0F);
    for (std::int64_t e = 0; e < c.elements(); ++e) {
      const std::int64_t at = c.source(e);
      if (at >= 0) b.out<float>(0)[at] += b.in<float>(0)[e];
    }
  });
}

Prepared ref_back(const OpCall& call) {
  return function_kernel([c = window_columns(call, call.shape(0))](const Buffers& b) {
    for (std::int64_t e = 0; e < c.elements(); ++e) {
      const std::int64_t at = c.source(e);
      b.out<float>(0)[e] = at >= 0 ? b.in<float>(0)[at] : 0;
    }
  });
}

constexpr KernelEntry kForward[] = {{"cuda", DeviceKind::kCuda, col2im_cuda}, {"ref", DeviceKind::kCpu, ref}};
constexpr KernelEntry kBackward[] = {{"cuda", DeviceKind::kCuda, im2col_cuda}, {"ref", DeviceKind::kCpu, ref_back}};

}  // namespace

WindowColumns window_columns(const OpCall& call, const Shape& image) {
  WindowColumns columns = columns_of(call.attrs, spatial(image));
  columns.n = image.size(0);
  columns.channels = image.size(-1);
  return columns;
}

extern constinit const OpDef col2im = {
    .name = "col2im", .infer = infer, .gradient = gradient, .kernels = kForward, .kernel_count = std::size(kForward)};
extern constinit const OpDef im2col = {.name = "im2col",
                                       .infer = infer_back,
                                       .gradient = gradient_back,
                                       .kernels = kBackward,
                                       .kernel_count = std::size(kBackward)};

}  // namespace neap::ops
