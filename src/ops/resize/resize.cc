// resize(x; sizes | scales, axes, roi, mode, nearest_mode, coordinate_transformation_mode, cubic_coeff_a,
// exclude_outside, antialias, extrapolation_value) -> y: ONNX's Resize on any axes of x, in the order in which x lies
// in memory (an image is [N, H, W, C]: axes = [1, 2]).
//   axes                             the axes that change; all when missing
//   sizes (ints)                     new lengths, one an axis named; without scales the scale is size / length
//   scales (reals)                   one an axis named; without sizes the new length is floor(length * scale)
//                                    Both may be given: sizes for the shape, scales for the coordinates, as they are
//                                    with a keep_aspect_ratio_policy.
//   roi (reals)                      begins, then ends, of the axes named; for tf_crop_and_resize alone
//   mode                             nearest (default), linear, cubic
//   nearest_mode                     round_prefer_floor (default), round_prefer_ceil, floor, ceil
//   coordinate_transformation_mode   half_pixel (default), half_pixel_symmetric, pytorch_half_pixel, align_corners,
//                                    asymmetric, tf_crop_and_resize
//   cubic_coeff_a = -0.75, exclude_outside = 0, antialias = 0, extrapolation_value = 0
// x is of any type of number; fast for f32 and axes beside each other. resize_grad(dy; the same and shape) -> dx, f32.
#include "ops/resize/resize.h"

#include <fmt/format.h>

#include <cmath>

#include "neap/error.h"
#include "ops/elementwise/element.h"
#include "ops/shape_util/axes.h"

namespace neap::ops {
namespace {

struct Wanted {
  Ints axes;
  Ints sizes;
  std::vector<double> scales;
  std::vector<double> roi;

  Wanted(const Shape& x, const Attrs& attrs) {
    Ints all;
    for (int i = 0; i < x.rank(); ++i) all.push_back(i);
    axes = axes_of(attrs.ints("axes", all), x.rank());
    sizes = attrs.ints("sizes", {});
    scales = attrs.reals("scales", {});
    roi = attrs.reals("roi", {});
    check(attrs);
  }

 private:
  void check(const Attrs& attrs) const {
    const std::size_t n = axes.size();
    if (sizes.empty() && scales.empty() && n > 0) throw UserError("needs sizes or scales");
    if (!sizes.empty() && sizes.size() != n) throw UserError(fmt::format("sizes needs {} numbers", n));
    if (!scales.empty() && scales.size() != n) throw UserError(fmt::format("scales needs {} numbers", n));
    for (const std::int64_t size : sizes) {
      if (size < 0 || size > (std::int64_t{1} << 30)) throw UserError(fmt::format("a size cannot be {}", size));
    }
    for (const double scale : scales) {
      if (!(scale > 0 && scale < 1e6)) throw UserError(fmt::format("a scale cannot be {}", scale));
    }
    const bool crops = attrs.text("coordinate_transformation_mode", "") == "tf_crop_and_resize";
    if (crops && roi.size() != 2 * n) throw UserError(fmt::format("roi needs {} numbers", 2 * n));
  }
};

Dim scaled(const Dim& in, double scale) {
  if (in.is_number()) return static_cast<std::int64_t>(std::floor(static_cast<double>(in.number()) * scale));
  return scale == std::floor(scale) ? in * Dim(static_cast<std::int64_t>(scale)) : Dim::unknown();
}

Types infer(const OpCall& call) {
  if (!is_number(call.in(0).dtype)) throw UserError(fmt::format("takes numbers, not {}", name(call.in(0).dtype)));
  resize_rule({}, call.attrs);  // checks the modes
  return {{call.in(0).dtype, resized(call.shape(0), call.attrs)}};
}

Types infer_grad(const OpCall& call) {
  const Shape x = call.attrs.shape("shape");
  const bool fits = call.in(0).dtype == DType::kF32 && call.shape(0) == resized(x, call.attrs);
  if (!fits) throw UserError("takes an f32 gradient of the resized shape");
  return {{DType::kF32, x}};
}

Values gradient(GradientCall& c) {
  Attrs attrs = c.node.attrs;
  attrs.set("shape", known_shape(c.g.shape(c.x(0)), "the gradient of resize"));
  return {c.g("resize_grad", {c.dy[0]}, attrs)};
}

std::vector<AxisTaps> taps_of(const OpCall& call) {
  std::vector<AxisTaps> taps;
  for (const ResizeRule& rule : resize_rules(call.shape(0), call.attrs)) taps.emplace_back(rule);
  return taps;
}

std::vector<AxisTaps> taps_back(const OpCall& call) {
  std::vector<AxisTaps> taps;
  for (const ResizeRule& rule : resize_rules(call.outputs[0].shape, call.attrs)) {
    taps.push_back(AxisTaps(rule).transposed());
  }
  return taps;
}

double extrapolation(const OpCall& call) { return call.attrs.real("extrapolation_value", 0); }

Prepared cuda(const OpCall& call) {
  if (resize_by_cuda == nullptr) return not_linked();
  return resize_by_cuda(resize_rules(call.shape(0), call.attrs), false, call.in(0).dtype, extrapolation(call));
}
Prepared cuda_grad(const OpCall& call) {
  if (resize_by_cuda == nullptr) return not_linked();
  return resize_by_cuda(resize_rules(call.outputs[0].shape, call.attrs), true, DType::kF32, 0);
}
Prepared simd(const OpCall& call) { return resize_by(taps_of(call), call.in(0).dtype, extrapolation(call)); }
Prepared ref(const OpCall& call) { return resize_by_ref(taps_of(call), call.in(0).dtype, extrapolation(call)); }
Prepared simd_grad(const OpCall& call) { return resize_by(taps_back(call), DType::kF32, 0); }
Prepared ref_grad(const OpCall& call) { return resize_by_ref(taps_back(call), DType::kF32, 0); }

double flops(const OpCall& call) {
  const std::string mode = call.attrs.text("mode", "nearest");
  return (mode == "nearest" ? 0 : mode == "linear" ? 8 : 32) * static_cast<double>(call.outputs[0].elements());
}

constexpr KernelEntry kForward[] = {
    {"cuda", DeviceKind::kCuda, cuda}, {"simd", DeviceKind::kCpu, simd}, {"ref", DeviceKind::kCpu, ref}};
constexpr KernelEntry kBackward[] = {
    {"cuda", DeviceKind::kCuda, cuda_grad}, {"simd", DeviceKind::kCpu, simd_grad}, {"ref", DeviceKind::kCpu, ref_grad}};

}  // namespace

Shape resized(const Shape& x, const Attrs& attrs) {
  const Wanted wanted(x, attrs);
  Shape y = x;
  for (std::size_t i = 0; i < wanted.axes.size(); ++i) {
    Dim& d = y[static_cast<int>(wanted.axes[i])];
    d = wanted.sizes.empty() ? scaled(d, wanted.scales[i]) : Dim(wanted.sizes[i]);
  }
  return y;
}

std::vector<ResizeRule> resize_rules(const Shape& x, const Attrs& attrs) {
  const Wanted wanted(x, attrs);
  const Shape y = resized(x, attrs);
  if (y.count() > 0 && x.count() == 0) throw UserError(fmt::format("{} has nothing to resize", x.text()));
  std::vector<ResizeRule> rules;
  for (int i = 0; i < x.rank(); ++i) rules.push_back({.in = x.size(i), .out = y.size(i)});
  std::vector<bool> changes(rules.size(), false);
  for (std::size_t i = 0; i < wanted.axes.size(); ++i) {
    const auto at = static_cast<std::size_t>(wanted.axes[i]);
    ResizeRule& axis = rules[at];
    changes[at] = true;
    axis.scale =
        wanted.scales.empty() ? static_cast<double>(axis.out) / static_cast<double>(axis.in) : wanted.scales[i];
    if (wanted.roi.size() != 2 * wanted.axes.size()) continue;
    axis.roi_begin = wanted.roi[i];
    axis.roi_end = wanted.roi[wanted.axes.size() + i];
  }
  for (std::size_t i = 0; i < rules.size(); ++i) rules[i] = resize_rule(rules[i], changes[i] ? attrs : Attrs{});
  return rules;
}

extern constinit const OpDef resize = {.name = "resize",
                                       .infer = infer,
                                       .gradient = gradient,
                                       .kernels = kForward,
                                       .kernel_count = std::size(kForward),
                                       .flops = flops,
                                       .cheap = true};

extern constinit const OpDef resize_grad = {
    .name = "resize_grad", .infer = infer_grad, .kernels = kBackward, .kernel_count = std::size(kBackward)};

}  // namespace neap::ops
