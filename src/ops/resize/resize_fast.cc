// Resizing of one or two axes beside each other: those before them are one, those behind them another.
#include "ops/resize/resize.h"
#include "ops/resize/resize_simd.h"

namespace neap::ops {
namespace {

struct FloatTaps {
  AxisTaps taps;
  std::vector<float> weight;

  explicit FloatTaps(AxisTaps t) : taps(std::move(t)), weight(taps.weight.begin(), taps.weight.end()) {}
  ResizeAxis view() const {
    return {.in = taps.in,
            .out = taps.out,
            .begin = taps.begin.data(),
            .index = taps.index.data(),
            .weight = weight.data(),
            .outside = taps.outside.data()};
  }
};

struct Problem {
  std::int64_t outer = 1;
  FloatTaps h, w;
  std::int64_t inner = 1;
  float extrapolation;

  ResizeShape view() const {
    return {.outer = outer, .h = h.view(), .w = w.view(), .inner = inner, .extrapolation = extrapolation};
  }
};

// An axis of one element: it stays as it is.
AxisTaps unit() { return AxisTaps(ResizeRule{}); }

}  // namespace

Prepared resize_by(const std::vector<AxisTaps>& taps, DType type, double extrapolation) {
  if (type != DType::kF32) return Declined{"f32 only"};
  std::vector<AxisTaps> changed;
  std::int64_t outer = 1;
  std::int64_t inner = 1;
  for (const AxisTaps& a : taps) {
    if (!a.is_identity()) {
      if (inner > 1) return Declined{"axes between those that change"};
      changed.push_back(a);
    } else {
      (changed.empty() ? outer : inner) *= a.in;
    }
  }
  if (changed.size() > 2) return Declined{"more than two axes"};
  if (outer == 0 || inner == 0) outer = inner = 0;
  while (changed.size() < 2) changed.insert(changed.begin(), unit());
  Problem problem{.outer = outer,
                  .h = FloatTaps(std::move(changed[0])),
                  .w = FloatTaps(std::move(changed[1])),
                  .inner = inner,
                  .extrapolation = static_cast<float>(extrapolation)};
  return function_kernel(
      [p = std::move(problem)](const Buffers& b) { resize_table().run(p.view(), b.in<float>(0), b.out<float>(0)); });
}

}  // namespace neap::ops
