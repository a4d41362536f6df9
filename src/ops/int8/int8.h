// Products with weights and activations of 8 bits, summed in 32: for inference.
//
// A weight has one scale an output channel: w ~ scale[o] * q, q in [-127, 127]. Activations get theirs at every call,
// one an image (a convolution's) or a row (a layer's), so that no sample's result depends on its batch and nothing has
// to be calibrated: x ~ s * (u - zero), u in [0, 255], the range being that of the values and 0. So
//   y[o] = (sum(u * q) - zero * sum(q)) * (s * scale[o]) + bias[o],
// the sums without rounding. Numbers that are not finite make an image's results NaN.
#pragma once

#include <algorithm>

#include "ops/conv/conv.h"

namespace neap::ops {

inline constexpr std::int64_t kInt8Lanes = 16;  // output channels of a vector
inline constexpr std::int64_t kInt8Panel = 64;  // of a panel; the last has as many as are left, rounded up to vectors
inline constexpr std::int64_t kMostTaps = 128;  // of a window
inline constexpr std::int64_t kMostTerms = 1 << 16;  // of a sum of 32 bits

// How a weight [out, taps, in] lies: panel by panel, in each tap by tap, four inputs at a time (a quad, with zeros
// behind the last input), the four bytes of each output channel side by side.
struct Int8Weight {
  std::int64_t out = 0, taps = 1, in = 0;

  std::int64_t quads() const { return (in + 3) / 4; }
  std::int64_t width() const { return (out + kInt8Lanes - 1) / kInt8Lanes * kInt8Lanes; }
  std::int64_t panels() const { return (out + kInt8Panel - 1) / kInt8Panel; }
  std::int64_t panel_at(std::int64_t panel) const { return panel * kInt8Panel * taps * quads() * 4; }
  std::int64_t lanes(std::int64_t panel) const { return std::min(kInt8Panel, width() - panel * kInt8Panel); }
  std::int64_t at(std::int64_t o, std::int64_t tap, std::int64_t i) const {
    const std::int64_t panel = o / kInt8Panel;
    return panel_at(panel) + ((tap * quads() + i / 4) * lanes(panel) + o % kInt8Panel) * 4 + i % 4;
  }
};

// Of an image whose values lie between low and high (0 included); `odd` is NaN where some are not finite.
struct Int8Scale {
  float scale = 1;
  std::int32_t zero = 0;
};
Int8Scale int8_scale(float low, float high, float odd);

// Whether 8 bits do for a convolution of this weight [out, (kd, kh,) kw, in] (a layer's: [out, in]) and these groups.
bool is_int8_weight(const Shape& weight, std::int64_t groups);

// What the kernels of both products take: a layer is a convolution of images of one pixel. Inputs x, packed, scale,
// sums, bias; output y.
Prepared int8_ref(const ConvShape& s, bool with_bias);
Prepared int8_simd(const ConvShape& s, bool with_bias);
inline Int8Weight int8_weight(const ConvShape& s) {
  return {.out = s.o, .taps = s.window.d.kernel * s.window.h.kernel * s.window.w.kernel, .in = s.c};
}

}  // namespace neap::ops
