// The positions and taps of a convolution one by one, the slow way: for reference kernels.
#pragma once

#include "ops/conv/conv.h"

namespace neap::ops {

// A position in space, and the box in which it lies.
struct Point {
  std::int64_t d, h, w;

  bool is_in(const Plane& box) const { return d >= 0 && d < box.d && h >= 0 && h < box.h && w >= 0 && w < box.w; }
  std::int64_t at(const Plane& box) const { return (d * box.h + h) * box.w + w; }
};

template <class F>
void each_point(const Plane& box, F f) {
  for (std::int64_t d = 0; d < box.d; ++d)
    for (std::int64_t h = 0; h < box.h; ++h)
      for (std::int64_t w = 0; w < box.w; ++w) f(Point{d, h, w});
}

// Input position that tap k of output position o looks at.
inline std::int64_t source(const WindowAxis& a, std::int64_t o, std::int64_t k) {
  return o * a.stride - a.pad_begin + k * a.dilation;
}

// Output position whose tap k looks at input position i; -1: none.
inline std::int64_t target(const WindowAxis& a, std::int64_t i, std::int64_t k) {
  const std::int64_t at = i + a.pad_begin - k * a.dilation;
  return at >= 0 && at % a.stride == 0 ? at / a.stride : -1;
}

struct ConvPoints {
  const ConvShape& s;
  Plane in{s.d, s.h, s.w};
  Plane out{s.od, s.oh, s.ow};
  Plane taps{s.window.d.kernel, s.window.h.kernel, s.window.w.kernel};
  std::int64_t cg = s.c / s.groups;
  std::int64_t og = s.o / s.groups;

  Point from(const Point& o, const Point& k) const {
    return {source(s.window.d, o.d, k.d), source(s.window.h, o.h, k.h), source(s.window.w, o.w, k.w)};
  }
  Point to(const Point& i, const Point& k) const {
    return {target(s.window.d, i.d, k.d), target(s.window.h, i.h, k.h), target(s.window.w, i.w, k.w)};
  }
  // First element of a pixel of x or y of image n, and of a tap of output channel o's weight.
  std::int64_t x_at(std::int64_t n, const Point& i) const { return (n * in.d * in.h * in.w + i.at(in)) * s.c; }
  std::int64_t y_at(std::int64_t n, const Point& o) const { return (n * out.d * out.h * out.w + o.at(out)) * s.o; }
  std::int64_t w_at(std::int64_t o, const Point& k) const { return (o * taps.d * taps.h * taps.w + k.at(taps)) * cg; }
};

}  // namespace neap::ops
