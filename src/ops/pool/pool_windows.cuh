// Windows of a pool as a thread finds them.
#pragma once

#include "ops/pool/pool_windows.h"

namespace neap::ops {

// Positions along an axis fit 32 bits, whose division takes a fraction of the time that 64 do.
struct Axis {
  int kernel, stride, pad_begin, pad_end, dilation;
  int in, out;
};

inline Axis axis_of(const WindowAxis& a, std::int64_t in, std::int64_t out) {
  return {static_cast<int>(a.kernel),  static_cast<int>(a.stride),   static_cast<int>(a.pad_begin),
          static_cast<int>(a.pad_end), static_cast<int>(a.dilation), static_cast<int>(in),
          static_cast<int>(out)};
}

struct Shape3 {
  Axis d, h, w;
  std::int64_t n, c;
  PoolCount count;

  explicit Shape3(const PoolWindows& p)
      : d(axis_of(p.window.d, p.in.d, p.out.d)),
        h(axis_of(p.window.h, p.in.h, p.out.h)),
        w(axis_of(p.window.w, p.in.w, p.out.w)),
        n(p.n),
        c(p.c),
        count(p.count) {}
};

__device__ inline int source(const Axis& a, int o, int k) { return o * a.stride - a.pad_begin + k * a.dilation; }

struct At {
  std::int64_t n;
  int d, h, w;
  std::int64_t c;
};

template <class Index>
__device__ At split(Index d, Index h, Index w, Index channels, Index i) {
  const Index pixel = i / channels;
  const Index row = pixel / w;
  const Index slab = row / h;
  const Index image = slab / d;
  return {static_cast<std::int64_t>(image), static_cast<int>(slab - image * d), static_cast<int>(row - slab * h),
          static_cast<int>(pixel - row * w), static_cast<std::int64_t>(i - pixel * channels)};
}

__device__ inline At place(int d, int h, int w, std::int64_t channels, std::int64_t i) {
  if (i >= (std::int64_t{1} << 31)) return split<std::int64_t>(d, h, w, channels, i);
  return split<std::uint32_t>(d, h, w, static_cast<std::uint32_t>(channels), static_cast<std::uint32_t>(i));
}

// f(tap, element of x) for the taps of an output position that lie inside.
template <class F>
__device__ void each_inside(const Shape3& s, const At& o, F f) {
  for (int kd = 0; kd < s.d.kernel; ++kd) {
    const int d = source(s.d, o.d, kd);
    if (d < 0 || d >= s.d.in) continue;
    for (int kh = 0; kh < s.h.kernel; ++kh) {
      const int h = source(s.h, o.h, kh);
      if (h < 0 || h >= s.h.in) continue;
      for (int kw = 0; kw < s.w.kernel; ++kw) {
        const int w = source(s.w, o.w, kw);
        if (w < 0 || w >= s.w.in) continue;
        f((kd * s.h.kernel + kh) * s.w.kernel + kw, (((o.n * s.d.in + d) * s.h.in + h) * s.w.in + w) * s.c + o.c);
      }
    }
  }
}

__device__ inline At place_in(const Shape3& s, std::int64_t i) { return place(s.d.in, s.h.in, s.w.in, s.c, i); }
__device__ inline At place_out(const Shape3& s, std::int64_t i) { return place(s.d.out, s.h.out, s.w.out, s.c, i); }
__device__ inline std::int64_t element(const Shape3& s, const At& o) {
  return (((o.n * s.d.out + o.d) * s.h.out + o.h) * s.w.out + o.w) * s.c + o.c;
}

inline std::int64_t outputs(const Shape3& s) { return s.n * s.d.out * s.h.out * s.w.out * s.c; }
inline std::int64_t inputs(const Shape3& s) { return s.n * s.d.in * s.h.in * s.w.in * s.c; }

inline Shape3 forward_shape(const OpCall& call) {
  return Shape3(PoolWindows(call.shape(0), call.outputs[0].shape, call.attrs));
}
inline Shape3 backward_shape(const OpCall& call) {
  return Shape3(PoolWindows(call.outputs[0].shape, call.shape(0), call.attrs));
}

}  // namespace neap::ops
