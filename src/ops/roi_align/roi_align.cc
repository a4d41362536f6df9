// roi_align(x [N, H, W, C], rois [R, 4] of (x1, y1, x2, y2), batch_indices i64 [R]; output_height = 1, output_width =
// 1, sampling_ratio = 0, spatial_scale = 1, mode, coordinate_transformation_mode) -> y [R, output_height, output_width,
// C]: ONNX's RoiAlign.
//   mode                             avg (default) or max (of the four weighted corners of each sample)
//   coordinate_transformation_mode   half_pixel (default) or output_half_pixel
// f32, no gradient.
#include <algorithm>
#include <cmath>

#include "ops/kernel.h"
#include "ops/matmul/checks.h"

namespace neap::ops {
namespace {

bool takes_max(const Attrs& attrs) {
  const std::string mode = attrs.text("mode", "avg");
  if (mode != "avg" && mode != "max") throw UserError(fmt::format("mode must be avg or max, not {}", mode));
  return mode == "max";
}

bool is_half_pixel(const Attrs& attrs) {
  const std::string how = attrs.text("coordinate_transformation_mode", "half_pixel");
  if (how != "half_pixel" && how != "output_half_pixel") {
    throw UserError("coordinate_transformation_mode must be half_pixel or output_half_pixel");
  }
  return how == "half_pixel";
}

Types infer(const OpCall& call) {
  need_f32(call, 0);
  need_f32(call, 1);
  need(call.in(2).dtype == DType::kI64, "batch_indices must be i64");
  need(call.shape(0).rank() == 4, "takes [N, H, W, C]");
  need(call.shape(1).rank() == 2 && call.shape(1)[1] == Dim(4), "rois must be [R, 4]");
  need_same_shape(call.shape(2), Shape{call.shape(1)[0]}, "one batch index a region");
  const std::int64_t h = call.attrs.integer("output_height", 1);
  const std::int64_t w = call.attrs.integer("output_width", 1);
  need(h >= 1 && w >= 1 && h < (1 << 20) && w < (1 << 20), "output_height and output_width must be positive");
  const std::int64_t ratio = call.attrs.integer("sampling_ratio", 0);
  need(ratio >= 0 && ratio < (1 << 16), "sampling_ratio must not be negative");
  takes_max(call.attrs);
  is_half_pixel(call.attrs);
  return {{DType::kF32, {call.shape(1)[0], h, w, call.shape(0)[-1]}}};
}

// A position between the two neighbours along an axis.
struct Between {
  std::int64_t low = 0, high = 0;
  double rest = 0;
  bool outside = false;

  Between(double at, std::int64_t size) {
    outside = !(at >= -1 && at <= static_cast<double>(size));
    if (outside) return;
    at = std::max(at, 0.0);
    low = std::min(static_cast<std::int64_t>(at), size - 1);
    high = std::min(low + 1, size - 1);
    rest = low == size - 1 ? 0 : at - static_cast<double>(low);
  }
};

// One axis of a region: where it starts, how large a bin is, how many samples a bin has.
struct Bins {
  double start, size;
  std::int64_t samples;

  Bins(double from, double to, std::int64_t bins, std::int64_t ratio, bool half_pixel) : start(from) {
    const double length = half_pixel ? to - from : std::max(to - from, 1.0);
    size = length / static_cast<double>(bins);
    samples = ratio > 0 ? ratio : size > 0 ? static_cast<std::int64_t>(std::min(std::ceil(size), 65536.0)) : 0;
  }
  double at(std::int64_t bin, std::int64_t sample) const {
    return start + static_cast<double>(bin) * size +
           (static_cast<double>(sample) + 0.5) * size / static_cast<double>(samples);
  }
};

struct Problem {
  std::int64_t n, h, w, c, regions, oh, ow, ratio;
  double scale;
  bool max, half_pixel;

  explicit Problem(const OpCall& call)
      : n(call.shape(0).size(0)),
        h(call.shape(0).size(1)),
        w(call.shape(0).size(2)),
        c(call.shape(0).size(3)),
        regions(call.shape(1).size(0)),
        oh(call.outputs[0].shape.size(1)),
        ow(call.outputs[0].shape.size(2)),
        ratio(call.attrs.integer("sampling_ratio", 0)),
        scale(call.attrs.real("spatial_scale", 1)),
        max(takes_max(call.attrs)),
        half_pixel(is_half_pixel(call.attrs)) {}

  double sample(const float* x, double at_h, double at_w) const {
    const Between y(at_h, h);
    const Between z(at_w, w);
    if (y.outside || z.outside) return 0;
    const auto corner = [&](std::int64_t i, std::int64_t j, double weight) { return weight * x[(i * w + j) * c]; };
    const double a = corner(y.low, z.low, (1 - y.rest) * (1 - z.rest));
    const double b = corner(y.low, z.high, (1 - y.rest) * z.rest);
    const double d = corner(y.high, z.low, y.rest * (1 - z.rest));
    const double e = corner(y.high, z.high, y.rest * z.rest);
    return max ? std::max({a, b, d, e}) : a + b + d + e;
  }

  float bin(const float* x, const Bins& rows, const Bins& columns, std::int64_t i, std::int64_t j) const {
    double sum = 0;
    for (std::int64_t p = 0; p < rows.samples; ++p) {
      for (std::int64_t q = 0; q < columns.samples; ++q) {
        const double v = sample(x, rows.at(i, p), columns.at(j, q));
        sum = max ? (p + q == 0 ? v : std::max(sum, v)) : sum + v;
      }
    }
    const double count = max ? 1 : std::max<double>(1, static_cast<double>(rows.samples * columns.samples));
    return static_cast<float>(sum / count);
  }

  void region(const float* x, const float* roi, float* y) const {
    const double offset = half_pixel ? 0.5 : 0;
    const auto edge = [&](int i) { return static_cast<double>(roi[i]) * scale - offset; };
    const Bins rows(edge(1), edge(3), oh, ratio, half_pixel);
    const Bins columns(edge(0), edge(2), ow, ratio, half_pixel);
    for (std::int64_t i = 0; i < oh; ++i)
      for (std::int64_t j = 0; j < ow; ++j)
        for (std::int64_t k = 0; k < c; ++k) *y++ = bin(x + k, rows, columns, i, j);
  }
};

Prepared ref(const OpCall& call) {
  return function_kernel([p = Problem(call)](const Buffers& b) {
    for (std::int64_t r = 0; r < p.regions; ++r) {
      const std::int64_t image = b.in<std::int64_t>(2)[r];
      if (image < 0 || image >= p.n) {
        throw UserError(fmt::format("roi_align: image {} of region {} is outside of [0, {})", image, r, p.n));
      }
      p.region(b.in<float>(0) + image * p.h * p.w * p.c, b.in<float>(1) + r * 4,
               b.out<float>(0) + r * p.oh * p.ow * p.c);
    }
  });
}

constexpr KernelEntry kKernels[] = {{"ref", DeviceKind::kCpu, ref}};

}  // namespace

extern constinit const OpDef roi_align = {
    .name = "roi_align", .infer = infer, .kernels = kKernels, .kernel_count = std::size(kKernels)};

}  // namespace neap::ops
