// grid_sample(x [N, (D,) H, W, C], grid [N, (OD,) OH, OW, 2 or 3]; mode, padding_mode, align_corners = 0) ->
// y [N, (OD,) OH, OW, C]: ONNX's GridSample. A point of the grid is (x, y) or (x, y, z) in [-1, 1].
//   mode           linear (default), nearest, cubic
//   padding_mode   zeros (default), border, reflection
// grid_sample_grad(dy, grid; the same and shape) -> dx. f32; there is no gradient of the grid.
#include "ops/grid_sample/grid_sample.h"

#include <algorithm>

#include "ops/matmul/checks.h"
#include "ops/shape_util/axes.h"

namespace neap::ops {
namespace {

template <class E>
E choice(const Attrs& attrs, const char* attribute, std::initializer_list<std::string_view> names) {
  const std::string text = attrs.text(attribute, *names.begin());
  const auto* at = std::find(names.begin(), names.end(), text);
  if (at == names.end()) throw UserError(fmt::format("{} cannot be '{}'", attribute, text));
  return static_cast<E>(at - names.begin());
}

Sampling sampling(const Attrs& attrs) {
  return {.mode = choice<GridMode>(attrs, "mode", {"linear", "nearest", "cubic"}),
          .padding = choice<GridPadding>(attrs, "padding_mode", {"zeros", "border", "reflection"}),
          .align = attrs.integer("align_corners", 0) != 0};
}

Shape sampled(const Shape& x, const Shape& grid, const Attrs& attrs) {
  const int space = x.rank() - 2;
  need(space == 2 || space == 3, "takes [N, H, W, C] or [N, D, H, W, C]");
  need(grid.rank() == x.rank() && grid[-1] == Dim(space) && may_equal(grid[0], x[0]), "the grid does not fit x");
  sampling(attrs);
  Shape y = leading(grid, 1);
  y.push_back(x[-1]);
  return y;
}

Types infer(const OpCall& call) {
  need_f32(call, 0);
  need_f32(call, 1);
  return {{DType::kF32, sampled(call.shape(0), call.shape(1), call.attrs)}};
}

Types infer_grad(const OpCall& call) {
  need_f32(call, 0);
  need_f32(call, 1);
  const Shape x = call.attrs.shape("shape");
  need_same_shape(call.shape(0), sampled(x, call.shape(1), call.attrs), "the gradient must have the output's shape");
  return {{DType::kF32, x}};
}

Values gradient(GradientCall& c) {
  if (c.wants(1)) throw UserError("there is no gradient of the grid of grid_sample");
  Attrs attrs = c.node.attrs;
  attrs.set("shape", known_shape(c.g.shape(c.x(0)), "the gradient of grid_sample"));
  return {c.g("grid_sample_grad", {c.dy[0], c.x(1)}, attrs), Value{}};
}

Prepared ref(const OpCall& call) {
  return function_kernel([p = grid_problem(call.shape(0), call.shape(1), call.attrs)](const Buffers& b) {
#pragma omp parallel for schedule(static)
    for (std::int64_t t = 0; t < p.n * p.points; ++t) {
      const float* image = b.in<float>(0) + t / p.points * p.pixels() * p.channels;
      float* y = b.out<float>(0) + t * p.channels;
      std::fill_n(y, p.channels, 0.0F);
      const PointTaps taps = p.taps(b.in<float>(1), t);
      for (int tap = 0; tap < taps.count(); ++tap) {
        const float weight = taps.weight(tap);
        const float* pixel = image + taps.pixel(tap) * p.channels;
        for (std::int64_t c = 0; c < p.channels; ++c) y[c] += weight * pixel[c];
      }
    }
  });
}

// One image a thread: the points that meet in a pixel are added in their order.
Prepared ref_grad(const OpCall& call) {
  return function_kernel([p = grid_problem(call.outputs[0].shape, call.shape(1), call.attrs)](const Buffers& b) {
#pragma omp parallel for schedule(static)
    for (std::int64_t i = 0; i < p.n; ++i) {
      float* image = b.out<float>(0) + i * p.pixels() * p.channels;
      std::fill_n(image, p.pixels() * p.channels, 0.0F);
      for (std::int64_t t = i * p.points; t < (i + 1) * p.points; ++t) {
        const float* dy = b.in<float>(0) + t * p.channels;
        const PointTaps taps = p.taps(b.in<float>(1), t);
        for (int tap = 0; tap < taps.count(); ++tap) {
          const float weight = taps.weight(tap);
          float* pixel = image + taps.pixel(tap) * p.channels;
          for (std::int64_t c = 0; c < p.channels; ++c) pixel[c] += weight * dy[c];
        }
      }
    }
  });
}

double flops(const OpCall& call) { return 8.0 * static_cast<double>(call.outputs[0].elements()); }

constexpr KernelEntry kForward[] = {{"cuda", DeviceKind::kCuda, grid_sample_cuda}, {"ref", DeviceKind::kCpu, ref}};
constexpr KernelEntry kBackward[] = {{"cuda", DeviceKind::kCuda, grid_sample_grad_cuda},
                                     {"ref", DeviceKind::kCpu, ref_grad}};

}  // namespace

GridProblem grid_problem(const Shape& x, const Shape& grid, const Attrs& attrs) {
  const Sampling how = sampling(attrs);
  GridProblem p{.d = {how, x.rank() == 5 ? x.size(1) : 1},
                .h = {how, x.size(-3)},
                .w = {how, x.size(-2)},
                .n = x.size(0),
                .channels = x.size(-1),
                .points = 1,
                .space = x.rank() - 2};
  for (int i = 1; i + 1 < grid.rank(); ++i) p.points *= grid.size(i);
  return p;
}

extern constinit const OpDef grid_sample = {.name = "grid_sample",
                                            .infer = infer,
                                            .gradient = gradient,
                                            .kernels = kForward,
                                            .kernel_count = std::size(kForward),
                                            .flops = flops};
extern constinit const OpDef grid_sample_grad = {
    .name = "grid_sample_grad", .infer = infer_grad, .kernels = kBackward, .kernel_count = std::size(kBackward)};

}  // namespace neap::ops
