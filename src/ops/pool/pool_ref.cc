#include <cmath>
#include <limits>

#include "ops/pool/pool.h"

namespace neap::ops {
namespace {

// Calls f(tap, element of x) for the taps of output position (oh, ow) that lie inside.
template <class F>
void each_tap(const Window& k, const Plane& in, std::int64_t oh, std::int64_t ow, F f) {
  for (std::int64_t kh = 0; kh < k.h.kernel; ++kh) {
    for (std::int64_t kw = 0; kw < k.w.kernel; ++kw) {
      const std::int64_t ih = oh * k.h.stride - k.h.pad_begin + kh * k.h.dilation;
      const std::int64_t iw = ow * k.w.stride - k.w.pad_begin + kw * k.w.dilation;
      if (ih >= 0 && ih < in.h && iw >= 0 && iw < in.w) f(kh * k.w.kernel + kw, ih * in.w + iw);
    }
  }
}

// Taps before the end of the padding along one axis.
std::int64_t padded_taps(const WindowAxis& a, std::int64_t o, std::int64_t size) {
  std::int64_t taps = 0;
  for (std::int64_t k = 0; k < a.kernel; ++k) taps += o * a.stride - a.pad_begin + k * a.dilation < size + a.pad_end;
  return taps;
}

struct Problem {
  Window window;
  Plane in, out;
  std::int64_t n, c;
  bool include_pad;

  Problem(const Shape& x, const Shape& y, const Attrs& attrs)
      : window(window_of(attrs, attrs.ints("kernel"))),
        in(plane_of(x)),
        out(plane_of(y)),
        n(x.size(0)),
        c(x.size(-1)),
        include_pad(attrs.integer("count_include_pad", 0) != 0) {}

  // Calls f(oh, ow, element of y without channel, element of x's image without channel).
  template <class F>
  void each_position(F f) const {
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t oh = 0; oh < out.h; ++oh)
        for (std::int64_t ow = 0; ow < out.w; ++ow) f(oh, ow, ((i * out.h + oh) * out.w + ow) * c, i * in.h * in.w * c);
  }

  double divisor(std::int64_t oh, std::int64_t ow) const {
    if (include_pad) return static_cast<double>(padded_taps(window.h, oh, in.h) * padded_taps(window.w, ow, in.w));
    double taps = 0;
    each_tap(window, in, oh, ow, [&](std::int64_t, std::int64_t) { taps += 1; });
    return taps;
  }
};

void write_tap(const Buffers& b, bool wide, std::int64_t at, std::int64_t tap) {
  if (b.outputs[1] == nullptr) return;
  if (wide) {
    b.out<std::int32_t>(1)[at] = static_cast<std::int32_t>(tap);
  } else {
    b.out<std::uint8_t>(1)[at] = static_cast<std::uint8_t>(tap);
  }
}

}  // namespace

Prepared max_pool_ref(const OpCall& call) {
  const bool wide = tap_type(call.attrs) == DType::kI32;
  return function_kernel([p = Problem(call.shape(0), call.outputs[0].shape, call.attrs), wide](const Buffers& b) {
    p.each_position([&](std::int64_t oh, std::int64_t ow, std::int64_t at, std::int64_t image) {
      for (std::int64_t c = 0; c < p.c; ++c) {
        float best = -std::numeric_limits<float>::infinity();
        std::int64_t best_tap = -1;
        each_tap(p.window, p.in, oh, ow, [&](std::int64_t tap, std::int64_t pixel) {
          const float v = b.in<float>(0)[image + pixel * p.c + c];
          if (best_tap >= 0 && !(v > best) && !std::isnan(v)) return;
          best = v;
          best_tap = tap;
        });
        b.out<float>(0)[at + c] = best;
        write_tap(b, wide, at + c, std::max<std::int64_t>(best_tap, 0));
      }
    });
  });
}

// Sums in the order of the windows: enough windows to matter for the rounding do not meet in one element.
Prepared max_pool_grad_ref(const OpCall& call) {
  const bool wide = call.in(1).dtype == DType::kI32;
  const std::int64_t size = call.outputs[0].elements();
  return function_kernel([p = Problem(call.outputs[0].shape, call.shape(0), call.attrs), wide, size](const Buffers& b) {
    float* dx = b.out<float>(0);
    std::fill_n(dx, size, 0.0F);
    p.each_position([&](std::int64_t oh, std::int64_t ow, std::int64_t at, std::int64_t image) {
      for (std::int64_t c = 0; c < p.c; ++c) {
        const std::int64_t chosen = wide ? b.in<std::int32_t>(1)[at + c] : b.in<std::uint8_t>(1)[at + c];
        each_tap(p.window, p.in, oh, ow, [&](std::int64_t tap, std::int64_t pixel) {
          if (tap == chosen) dx[image + pixel * p.c + c] += b.in<float>(0)[at + c];
        });
      }
    });
  });
}

Prepared average_pool_ref(const OpCall& call) {
  return function_kernel([p = Problem(call.shape(0), call.outputs[0].shape, call.attrs)](const Buffers& b) {
    p.each_position([&](std::int64_t oh, std::int64_t ow, std::int64_t at, std::int64_t image) {
      for (std::int64_t c = 0; c < p.c; ++c) {
        double sum = 0;
        each_tap(p.window, p.in, oh, ow,
                 [&](std::int64_t, std::int64_t pixel) { sum += b.in<float>(0)[image + pixel * p.c + c]; });
        b.out<float>(0)[at + c] = static_cast<float>(sum / std::max(1.0, p.divisor(oh, ow)));
      }
    });
  });
}

Prepared average_pool_grad_ref(const OpCall& call) {
  const std::int64_t size = call.outputs[0].elements();
  return function_kernel([p = Problem(call.outputs[0].shape, call.shape(0), call.attrs), size](const Buffers& b) {
    float* dx = b.out<float>(0);
    std::fill_n(dx, size, 0.0F);
    p.each_position([&](std::int64_t oh, std::int64_t ow, std::int64_t at, std::int64_t image) {
      const double divisor = p.divisor(oh, ow);
      for (std::int64_t c = 0; c < p.c; ++c) {
        each_tap(p.window, p.in, oh, ow, [&](std::int64_t, std::int64_t pixel) {
          dx[image + pixel * p.c + c] += static_cast<float>(b.in<float>(0)[at + c] / divisor);
        });
      }
    });
  });
}

}  // namespace neap::ops
