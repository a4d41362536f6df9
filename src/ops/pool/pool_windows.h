// Windows of a pool one by one, the slow way: for reference kernels.
#pragma once

#include "ops/pool/pool.h"

namespace neap::ops {

// A position of the output.
struct Place {
  std::int64_t d, h, w;
};

// Calls f(tap, pixel of x) for the taps of an output position that lie inside.
template <class F>
void each_tap(const Window& k, const Plane& in, const Place& o, F f) {
  for (std::int64_t kd = 0; kd < k.d.kernel; ++kd)
    for (std::int64_t kh = 0; kh < k.h.kernel; ++kh)
      for (std::int64_t kw = 0; kw < k.w.kernel; ++kw) {
        const std::int64_t id = o.d * k.d.stride - k.d.pad_begin + kd * k.d.dilation;
        const std::int64_t ih = o.h * k.h.stride - k.h.pad_begin + kh * k.h.dilation;
        const std::int64_t iw = o.w * k.w.stride - k.w.pad_begin + kw * k.w.dilation;
        const bool inside = id >= 0 && id < in.d && ih >= 0 && ih < in.h && iw >= 0 && iw < in.w;
        if (inside) f((kd * k.h.kernel + kh) * k.w.kernel + kw, (id * in.h + ih) * in.w + iw);
      }
}

// The pixel's number when the spatial axes are counted column by column.
constexpr std::int64_t by_columns(const Plane& in, std::int64_t pixel) {
  const std::int64_t w = pixel % in.w;
  const std::int64_t h = pixel / in.w % in.h;
  return (w * in.h + h) * in.d + pixel / (in.w * in.h);
}

// Taps before the end of the padding along one axis.
inline std::int64_t padded_taps(const WindowAxis& a, std::int64_t o, std::int64_t size) {
  std::int64_t taps = 0;
  for (std::int64_t k = 0; k < a.kernel; ++k) taps += o * a.stride - a.pad_begin + k * a.dilation < size + a.pad_end;
  return taps;
}

struct PoolWindows {
  Window window;
  Plane in, out;
  std::int64_t n, c;
  PoolCount count;

  PoolWindows(const Shape& x, const Shape& y, const Attrs& attrs)
      : window(window_of(attrs, attrs.ints("kernel"))),
        in(plane_of(x)),
        out(plane_of(y)),
        n(x.size(0)),
        c(x.size(-1)),
        count(pool_count(attrs)) {}

  // Calls f(output position, element of y without channel, element of x's image without channel).
  template <class F>
  void each_position(F f) const {
    std::int64_t at = 0;
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t od = 0; od < out.d; ++od)
        for (std::int64_t oh = 0; oh < out.h; ++oh)
          for (std::int64_t ow = 0; ow < out.w; ++ow, at += c) f(Place{od, oh, ow}, at, i * in.d * in.h * in.w * c);
  }

  double divisor(const Place& o) const {
    if (count == PoolCount::kAll) {
      return static_cast<double>(window.d.kernel * window.h.kernel * window.w.kernel);
    }
    if (count == PoolCount::kPadded) {
      return static_cast<double>(padded_taps(window.d, o.d, in.d) * padded_taps(window.h, o.h, in.h) *
                                 padded_taps(window.w, o.w, in.w));
    }
    double taps = 0;
    each_tap(window, in, o, [&](std::int64_t, std::int64_t) { taps += 1; });
    return taps;
  }
};

}  // namespace neap::ops
