// col2im(x [N, C * taps, L]; image, kernel, strides, pads, dilations) -> y [N, image..., C]: the sum of the windows'
// columns, as ONNX's Col2Im with channels last in the RESULT; x is as in ONNX (a channel's taps lie together, L counts
// the windows). `image` has the sizes of the spatial axes (any number of them), `kernel` those of a window.
//
// im2col(y [N, image..., C]; kernel, strides, pads, dilations) -> x takes the columns out. Each is the other's
// gradient; f32.
#include <algorithm>
#include <cstdlib>

#include "ops/kernel.h"
#include "ops/matmul/checks.h"

namespace neap::ops {
namespace {

struct Columns {
  Ints image, kernel, strides, dilations, begins, windows;
  std::int64_t n = 0, channels = 0;

  // From the attributes, for an image of these sizes.
  Columns(const Attrs& attrs, Ints sizes) : image(std::move(sizes)), kernel(attrs.ints("kernel")) {
    const std::size_t axes = image.size();
    strides = attrs.ints("strides", Ints(axes, 1));
    dilations = attrs.ints("dilations", Ints(axes, 1));
    const Ints pads = attrs.ints("pads", Ints(2 * axes, 0));
    need(axes >= 1 && kernel.size() == axes && strides.size() == axes && dilations.size() == axes &&
             pads.size() == 2 * axes,
         "image, kernel, strides, dilations and pads do not fit each other");
    for (std::size_t i = 0; i < axes; ++i) {
      for (const std::int64_t size : {image[i], kernel[i], strides[i], dilations[i]}) {
        need(size >= 1 && size < (std::int64_t{1} << 30), "sizes must be positive");
      }
      need(std::abs(pads[i]) < (1 << 30) && std::abs(pads[axes + i]) < (1 << 30), "the pads are too large");
      begins.push_back(pads[i]);
      const std::int64_t room = image[i] + pads[i] + pads[axes + i] - dilations[i] * (kernel[i] - 1) - 1;
      need(room >= 0, "the window is larger than the image");
      windows.push_back(room / strides[i] + 1);
    }
  }

  static std::int64_t product(const Ints& sizes) {
    std::int64_t p = 1;
    for (const std::int64_t s : sizes) need(!__builtin_mul_overflow(p, s, &p), "the sizes are too large");
    return p;
  }

  // The pixel that tap k of window l looks at; -1: outside.
  std::int64_t pixel(std::int64_t k, std::int64_t l) const {
    std::int64_t at = 0;
    std::int64_t step = 1;
    for (std::size_t i = image.size(); i-- > 0;) {
      const std::int64_t place = l % windows[i] * strides[i] - begins[i] + k % kernel[i] * dilations[i];
      if (place < 0 || place >= image[i]) return -1;
      at += place * step;
      step *= image[i];
      l /= windows[i];
      k /= kernel[i];
    }
    return at;
  }

  // f(element of the columns, element of the image) for all that meet, in a fixed order.
  template <class F>
  void each(F f) const {
    const std::int64_t taps = product(kernel);
    const std::int64_t l = product(windows);
    const std::int64_t pixels = product(image);
    for (std::int64_t r = 0; r < n * channels * taps; ++r) {
      const std::int64_t c = r / taps % channels;
      const std::int64_t first = r / (taps * channels) * pixels;
      for (std::int64_t w = 0; w < l; ++w) {
        const std::int64_t at = pixel(r % taps, w);
        f(r * l + w, at < 0 ? -1 : (first + at) * channels + c);
      }
    }
  }
};

Types infer(const OpCall& call) {
  need_f32(call, 0);
  const Shape& x = call.shape(0);
  need(x.rank() == 3 && x[1].is_number(), "takes [N, C * taps, L]");
  const Columns columns(call.attrs, call.attrs.ints("image"));
  const std::int64_t taps = Columns::product(columns.kernel);
  need(x[1].number() % taps == 0, "the second axis must be channels * taps");
  need(may_equal(x[2], Columns::product(columns.windows)), "the third axis must have one entry a window");
  Shape y{x[0]};
  for (const std::int64_t size : columns.image) y.push_back(size);
  y.push_back(x[1].number() / taps);
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
  const Columns columns(call.attrs, spatial(y));
  return {{DType::kF32, {y[0], y[-1] * Dim(Columns::product(columns.kernel)), Columns::product(columns.windows)}}};
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

Columns columns_of(const OpCall& call, const Shape& image) {
  Columns columns(call.attrs, spatial(image));
  columns.n = image.size(0);
  columns.channels = image.size(-1);
  return columns;
}

Prepared ref(const OpCall& call) {
  const std::int64_t size = call.outputs[0].elements();
  return function_kernel([c = columns_of(call, call.outputs[0].shape), size](const Buffers& b) {
    std::fill_n(b.out<float>(0), size, 0.0F);
    c.each([&](std::int64_t column, std::int64_t at) {
      if (at >= 0) b.out<float>(0)[at] += b.in<float>(0)[column];
    });
  });
}

Prepared ref_back(const OpCall& call) {
  return function_kernel([c = columns_of(call, call.shape(0))](const Buffers& b) {
    c.each([&](std::int64_t column, std::int64_t at) { b.out<float>(0)[column] = at >= 0 ? b.in<float>(0)[at] : 0; });
  });
}

constexpr KernelEntry kForward[] = {{"ref", DeviceKind::kCpu, ref}};
constexpr KernelEntry kBackward[] = {{"ref", DeviceKind::kCpu, ref_back}};

}  // namespace

extern constinit const OpDef col2im = {
    .name = "col2im", .infer = infer, .gradient = gradient, .kernels = kForward, .kernel_count = std::size(kForward)};
extern constinit const OpDef im2col = {.name = "im2col",
                                       .infer = infer_back,
                                       .gradient = gradient_back,
                                       .kernels = kBackward,
                                       .kernel_count = std::size(kBackward)};

}  // namespace neap::ops
