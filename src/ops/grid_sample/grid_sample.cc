// grid_sample(x [N, (D,) H, W, C], grid [N, (OD,) OH, OW, 2 or 3]; mode, padding_mode, align_corners = 0) ->
// y [N, (OD,) OH, OW, C]: ONNX's GridSample. A point of the grid is (x, y) or (x, y, z) in [-1, 1].
//   mode           linear (default), nearest, cubic
//   padding_mode   zeros (default), border, reflection
// grid_sample_grad(dy, grid; the same and shape) -> dx. f32; there is no gradient of the grid.
#include <algorithm>
#include <cmath>

#include "ops/kernel.h"
#include "ops/matmul/checks.h"
#include "ops/shape_util/axes.h"

namespace neap::ops {
namespace {

enum class Mode : std::uint8_t { kLinear, kNearest, kCubic };
enum class Padding : std::uint8_t { kZeros, kBorder, kReflection };

template <class E>
E choice(const Attrs& attrs, const char* attribute, std::initializer_list<std::string_view> names) {
  const std::string text = attrs.text(attribute, *names.begin());
  const auto* at = std::find(names.begin(), names.end(), text);
  if (at == names.end()) throw UserError(fmt::format("{} cannot be '{}'", attribute, text));
  return static_cast<E>(at - names.begin());
}

struct Sampling {
  Mode mode;
  Padding padding;
  bool align;

  explicit Sampling(const Attrs& attrs)
      : mode(choice<Mode>(attrs, "mode", {"linear", "nearest", "cubic"})),
        padding(choice<Padding>(attrs, "padding_mode", {"zeros", "border", "reflection"})),
        align(attrs.integer("align_corners", 0) != 0) {}
};

Shape sampled(const Shape& x, const Shape& grid, const Attrs& attrs) {
  const int space = x.rank() - 2;
  need(space == 2 || space == 3, "takes [N, H, W, C] or [N, D, H, W, C]");
  need(grid.rank() == x.rank() && grid[-1] == Dim(space) && may_equal(grid[0], x[0]), "the grid does not fit x");
  const Sampling checked(attrs);
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

// x mirrored at both borders until it lies between them.
float reflected(float x, float low, float high) {
  const float range = high - low;
  if (range <= 0) return low;
  const float beyond = x < low ? low - x : x > high ? x - high : -1;
  if (beyond < 0) return x;
  const float turns = std::trunc(beyond / range);
  const float rest = beyond - turns * range;
  const bool from_near = std::fmod(turns, 2.0F) == 0;
  return (x < low) == from_near ? low + rest : high - rest;
}

// The taps of one point along one axis.
struct AxisTaps {
  int count = 0;
  std::int64_t index[4] = {};
  float weight[4] = {};
};

struct Axis {
  Sampling how;
  std::int64_t size;

  float low() const { return how.align ? 0 : -0.5F; }
  float high() const { return static_cast<float>(size) - (how.align ? 1 : 0.5F); }

  void push(AxisTaps& taps, float at, float weight) const {
    const auto last = static_cast<float>(size - 1);
    const bool inside = at >= 0 && at <= last;
    if (!inside && how.padding == Padding::kZeros) return;
    if (how.padding == Padding::kReflection) at = std::trunc(reflected(at, low(), high()));
    if (std::isnan(at)) return;
    taps.index[taps.count] = static_cast<std::int64_t>(std::clamp(at, 0.0F, last));
    taps.weight[taps.count++] = weight;
  }

  AxisTaps taps(float n) const {
    const auto length = static_cast<float>(size);
    float x = how.align ? (n + 1) / 2 * (length - 1) : ((n + 1) * length - 1) / 2;
    if (how.mode == Mode::kNearest) x = std::nearbyint(x);
    if (x < low() || x > high()) {
      if (how.padding == Padding::kBorder) x = std::clamp(x, 0.0F, length - 1);
      if (how.padding == Padding::kReflection) x = reflected(x, low(), high());
    }
    AxisTaps out;
    if (how.mode == Mode::kNearest) {
      push(out, std::trunc(x), 1);
      return out;
    }
    const float left = std::floor(x);
    const float r = x - left;
    if (how.mode == Mode::kLinear) {
      push(out, left, 1 - r);
      push(out, left + 1, r);
      return out;
    }
    constexpr float kA = -0.75F;
    const auto near = [](float d) { return ((kA + 2) * d - (kA + 3)) * d * d + 1; };
    const auto far = [](float d) { return ((kA * d - 5 * kA) * d + 8 * kA) * d - 4 * kA; };
    push(out, left - 1, far(r + 1));
    push(out, left, near(r));
    push(out, left + 1, near(1 - r));
    push(out, left + 2, far(2 - r));
    return out;
  }
};

struct Problem {
  Axis d, h, w;
  std::int64_t n, channels;
  std::int64_t points = 1;
  int space;

  Problem(const Shape& x, const Shape& grid, const Attrs& attrs)
      : d{Sampling(attrs), x.rank() == 5 ? x.size(1) : 1},
        h{Sampling(attrs), x.size(-3)},
        w{Sampling(attrs), x.size(-2)},
        n(x.size(0)),
        channels(x.size(-1)),
        space(x.rank() - 2) {
    for (int i = 1; i + 1 < grid.rank(); ++i) points *= grid.size(i);
  }
  std::int64_t pixels() const { return d.size * h.size * w.size; }

  // f(pixel, weight) for the taps of point p of image i.
  template <class F>
  void each_tap(const float* grid, std::int64_t i, std::int64_t p, F f) const {
    const float* at = grid + (i * points + p) * space;
    const AxisTaps along_w = w.taps(at[0]);
    const AxisTaps along_h = h.taps(at[1]);
    AxisTaps along_d{.count = 1, .index = {0}, .weight = {1}};
    if (space == 3) along_d = d.taps(at[2]);
    for (int a = 0; a < along_d.count; ++a)
      for (int b = 0; b < along_h.count; ++b)
        for (int c = 0; c < along_w.count; ++c) {
          f((along_d.index[a] * h.size + along_h.index[b]) * w.size + along_w.index[c],
            along_d.weight[a] * along_h.weight[b] * along_w.weight[c]);
        }
  }
};

Prepared ref(const OpCall& call) {
  return function_kernel([p = Problem(call.shape(0), call.shape(1), call.attrs)](const Buffers& b) {
#pragma omp parallel for schedule(static)
    for (std::int64_t t = 0; t < p.n * p.points; ++t) {
      const std::int64_t i = t / p.points;
      const float* image = b.in<float>(0) + i * p.pixels() * p.channels;
      float* y = b.out<float>(0) + t * p.channels;
      std::fill_n(y, p.channels, 0.0F);
      p.each_tap(b.in<float>(1), i, t % p.points, [&](std::int64_t pixel, float weight) {
        for (std::int64_t c = 0; c < p.channels; ++c) y[c] += weight * image[pixel * p.channels + c];
      });
    }
  });
}

// One image a thread: the points that meet in a pixel are added in their order.
Prepared ref_grad(const OpCall& call) {
  return function_kernel([p = Problem(call.outputs[0].shape, call.shape(1), call.attrs)](const Buffers& b) {
#pragma omp parallel for schedule(static)
    for (std::int64_t i = 0; i < p.n; ++i) {
      float* image = b.out<float>(0) + i * p.pixels() * p.channels;
      std::fill_n(image, p.pixels() * p.channels, 0.0F);
      for (std::int64_t t = 0; t < p.points; ++t) {
        const float* dy = b.in<float>(0) + (i * p.points + t) * p.channels;
        p.each_tap(b.in<float>(1), i, t, [&](std::int64_t pixel, float weight) {
          for (std::int64_t c = 0; c < p.channels; ++c) image[pixel * p.channels + c] += weight * dy[c];
        });
      }
    }
  });
}

double flops(const OpCall& call) { return 8.0 * static_cast<double>(call.outputs[0].elements()); }

constexpr KernelEntry kForward[] = {{"ref", DeviceKind::kCpu, ref}};
constexpr KernelEntry kBackward[] = {{"ref", DeviceKind::kCpu, ref_grad}};

}  // namespace

extern constinit const OpDef grid_sample = {.name = "grid_sample",
                                            .infer = infer,
                                            .gradient = gradient,
                                            .kernels = kForward,
                                            .kernel_count = std::size(kForward),
                                            .flops = flops};
extern constinit const OpDef grid_sample_grad = {
    .name = "grid_sample_grad", .infer = infer_grad, .kernels = kBackward, .kernel_count = std::size(kBackward)};

}  // namespace neap::ops
