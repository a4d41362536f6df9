// roi_align(x [N, H, W, C], rois [R, 4] of (x1, y1, x2, y2), batch_indices i64 [R]; output_height = 1, output_width =
// 1, sampling_ratio = 0, spatial_scale = 1, mode, coordinate_transformation_mode) -> y [R, output_height, output_width,
// C]: ONNX's RoiAlign.
//   mode                             avg (default) or max (of the four weighted corners of each sample)
//   coordinate_transformation_mode   half_pixel (default) or output_half_pixel
// f32, no gradient.
#include "ops/roi_align/roi_align.h"

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

Prepared ref(const OpCall& call) {
  return function_kernel([p = roi_problem(call)](const Buffers& b) {
    auto* y = b.out<float>(0);
    for (std::int64_t r = 0; r < p.regions; ++r) {
      const std::int64_t image = b.in<std::int64_t>(2)[r];
      if (image < 0 || image >= p.n) {
        throw UserError(fmt::format("roi_align: image {} of region {} is outside of [0, {})", image, r, p.n));
      }
      const float* x = b.in<float>(0) + image * p.h * p.w * p.c;
      for (std::int64_t i = 0; i < p.oh; ++i)
        for (std::int64_t j = 0; j < p.ow; ++j)
          for (std::int64_t k = 0; k < p.c; ++k) *y++ = p.bin(x + k, b.in<float>(1) + r * 4, i, j);
    }
  });
}

constexpr KernelEntry kKernels[] = {{"cuda", DeviceKind::kCuda, roi_align_cuda}, {"ref", DeviceKind::kCpu, ref}};

}  // namespace

RoiProblem roi_problem(const OpCall& call) {
  const Shape& x = call.shape(0);
  return {.n = x.size(0),
          .h = x.size(1),
          .w = x.size(2),
          .c = x.size(3),
          .regions = call.shape(1).size(0),
          .oh = call.outputs[0].shape.size(1),
          .ow = call.outputs[0].shape.size(2),
          .ratio = call.attrs.integer("sampling_ratio", 0),
          .scale = call.attrs.real("spatial_scale", 1),
          .max = takes_max(call.attrs),
          .half_pixel = is_half_pixel(call.attrs)};
}

extern constinit const OpDef roi_align = {
    .name = "roi_align", .infer = infer, .kernels = kKernels, .kernel_count = std::size(kKernels)};

}  // namespace neap::ops
