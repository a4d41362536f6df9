// Which pixels a point of the grid reads, and with what weights: for kernels on the CPU and on CUDA.
#pragma once

#include <cmath>

#include "device/both.h"
#include "ops/kernel.h"

namespace neap::ops {

enum class GridMode : std::uint8_t { kLinear, kNearest, kCubic };
enum class GridPadding : std::uint8_t { kZeros, kBorder, kReflection };

struct Sampling {
  GridMode mode;
  GridPadding padding;
  bool align;
};

// The taps of one point along one axis.
struct GridTaps {
  int count = 0;
  std::int64_t index[4] = {};
  float weight[4] = {};
};

struct SampledAxis {
  Sampling how;
  std::int64_t size;

  NEAP_BOTH GridTaps taps(float n) const {
    const auto length = static_cast<float>(size);
    float x = how.align ? (n + 1) / 2 * (length - 1) : ((n + 1) * length - 1) / 2;
    if (how.mode == GridMode::kNearest) x = nearbyintf(x);
    if (x < low() || x > high()) {
      if (how.padding == GridPadding::kBorder) x = held(x, length - 1);
      if (how.padding == GridPadding::kReflection) x = reflected(x, low(), high());
    }
    GridTaps out;
    if (how.mode == GridMode::kNearest) {
      push(out, truncf(x), 1);
      return out;
    }
    const float left = floorf(x);
    const float r = x - left;
    if (how.mode == GridMode::kLinear) {
      push(out, left, 1 - r);
      push(out, left + 1, r);
      return out;
    }
    push(out, left - 1, cubic_far(r + 1));
    push(out, left, cubic_near(r));
    push(out, left + 1, cubic_near(1 - r));
    push(out, left + 2, cubic_far(2 - r));
    return out;
  }

 private:
  NEAP_BOTH float low() const { return how.align ? 0 : -0.5F; }
  NEAP_BOTH float high() const { return static_cast<float>(size) - (how.align ? 1 : 0.5F); }
  NEAP_BOTH static float held(float x, float last) { return x < 0 ? 0 : last < x ? last : x; }

  // x mirrored at both borders until it lies between them.
  NEAP_BOTH static float reflected(float x, float low, float high) {
    const float range = high - low;
    if (range <= 0) return low;
    const float beyond = x < low ? low - x : x > high ? x - high : -1;
    if (beyond < 0) return x;
    const float turns = truncf(beyond / range);
    const float rest = beyond - turns * range;
    const bool from_near = fmodf(turns, 2.0F) == 0;
    return (x < low) == from_near ? low + rest : high - rest;
  }

  static constexpr float kA = -0.75F;
  NEAP_BOTH static float cubic_near(float d) { return ((kA + 2) * d - (kA + 3)) * d * d + 1; }
  NEAP_BOTH static float cubic_far(float d) { return ((kA * d - 5 * kA) * d + 8 * kA) * d - 4 * kA; }

  NEAP_BOTH void push(GridTaps& taps, float at, float weight) const {
    const auto last = static_cast<float>(size - 1);
    const bool inside = at >= 0 && at <= last;
    if (!inside && how.padding == GridPadding::kZeros) return;
    if (how.padding == GridPadding::kReflection) at = truncf(reflected(at, low(), high()));
    if (at != at) return;
    taps.index[taps.count] = static_cast<std::int64_t>(held(at, last));
    taps.weight[taps.count++] = weight;
  }
};

// The taps of a point: all combinations of those along the axes, the last axis first.
struct PointTaps {
  GridTaps d, h, w;
  std::int64_t height, width;

  NEAP_BOTH int count() const { return d.count * h.count * w.count; }
  NEAP_BOTH std::int64_t pixel(int tap) const {
    const int plane = tap / w.count;
    return (d.index[plane / h.count] * height + h.index[plane % h.count]) * width + w.index[tap % w.count];
  }
  NEAP_BOTH float weight(int tap) const {
    const int plane = tap / w.count;
    return d.weight[plane / h.count] * h.weight[plane % h.count] * w.weight[tap % w.count];
  }
};

struct GridProblem {
  SampledAxis d, h, w;
  std::int64_t n, channels;
  std::int64_t points;  // of an image
  int space;

  NEAP_BOTH std::int64_t pixels() const { return d.size * h.size * w.size; }
  // The most taps that a point can have.
  int most_taps() const {
    const int along = w.how.mode == GridMode::kNearest ? 1 : w.how.mode == GridMode::kLinear ? 2 : 4;
    return space == 3 ? along * along * along : along * along;
  }
  // Of point t, counted over all images.
  NEAP_BOTH PointTaps taps(const float* grid, std::int64_t t) const {
    const float* at = grid + t * space;
    PointTaps out{.h = h.taps(at[1]), .w = w.taps(at[0]), .height = h.size, .width = w.size};
    if (space == 3) {
      out.d = d.taps(at[2]);
    } else {
      out.d.count = 1;
      out.d.weight[0] = 1;
    }
    return out;
  }
};

// x [N, (D,) H, W, C] and the grid.
GridProblem grid_problem(const Shape& x, const Shape& grid, const Attrs& attrs);

[[gnu::weak]] Prepared grid_sample_cuda(const OpCall& call);
[[gnu::weak]] Prepared grid_sample_grad_cuda(const OpCall& call);

}  // namespace neap::ops
