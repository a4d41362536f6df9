// Products with weights and activations of 8 bits, summed in 32: for inference.
//
// A weight has one scale an output channel: w ~ scale[o] * q, q in [-127, 127]. Activations get theirs at every call,
// one an image (a convolution's) or a row (a layer's), so that no sample's result depends on its batch and nothing has
// to be calibrated: x ~ s * (u - zero), u in [0, 255], the range being that of the values and 0. So
//   y[o] = (sum(u * q) - zero * sum(q)) * (s * scale[o]) + bias[o],
// the sums without rounding. Numbers that are not finite make an image's results NaN.
#pragma once

#include <algorithm>
#include <limits>

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

  constexpr std::int64_t quads() const { return (in + 3) / 4; }
  constexpr std::int64_t width() const { return (out + kInt8Lanes - 1) / kInt8Lanes * kInt8Lanes; }
  constexpr std::int64_t panels() const { return (out + kInt8Panel - 1) / kInt8Panel; }
  constexpr std::int64_t panel_at(std::int64_t panel) const { return panel * kInt8Panel * taps * quads() * 4; }
  constexpr std::int64_t lanes(std::int64_t panel) const {
    const std::int64_t left = width() - panel * kInt8Panel;
    return left < kInt8Panel ? left : kInt8Panel;
  }
  constexpr std::int64_t at(std::int64_t o, std::int64_t tap, std::int64_t i) const {
    const std::int64_t panel = o / kInt8Panel;
    return panel_at(panel) + ((tap * quads() + i / 4) * lanes(panel) + o % kInt8Panel) * 4 + i % 4;
  }
};

// Of an image whose values lie between low and high (0 included); `odd` is NaN where some are not finite.
struct Int8Scale {
  float scale = 1;
  std::int32_t zero = 0;
};
// The nearest integer, halves to even, of what is far smaller than 2^22: the sum has no bits left for a fraction.
constexpr std::int32_t int8_nearest(float x) { return static_cast<std::int32_t>((x + 12582912.0F) - 12582912.0F); }
constexpr Int8Scale int8_scale(float low, float high, float odd) {
  const float scale = (high - low) / 255;
  if (scale * 0 != 0 || odd != 0) return {.scale = std::numeric_limits<float>::quiet_NaN(), .zero = 0};
  if (scale < std::numeric_limits<float>::min()) return {};  // nothing but zeros, as far as 8 bits go
  return {.scale = scale, .zero = std::clamp(int8_nearest(-low / scale), 0, 255)};
}
// An activation's byte; the scale is finite.
constexpr std::int32_t int8_byte(float x, float inverse, std::int32_t zero) {
  return std::clamp(int8_nearest(x * inverse) + zero, 0, 255);
}

// Of an output channel whose weights are at most `largest`; `odd` as above.
constexpr float int8_weight_scale(float largest, float odd) {
  if (largest * 0 != 0 || odd != 0) return std::numeric_limits<float>::quiet_NaN();
  return largest < 127 * std::numeric_limits<float>::min() ? 1 : largest / 127;
}
constexpr std::int32_t int8_weight_byte(float w, float scale) { return std::clamp(int8_nearest(w / scale), -127, 127); }

// A result from its sum of bytes.
constexpr float int8_result(std::int32_t sum, std::int32_t zero, std::int32_t weights, float scale, float of_weight) {
  return static_cast<float>(sum - zero * weights) * (scale * of_weight);
}

// Which numbers pack_int8 takes.
struct Int8Source {
  Int8Weight weight;
  bool transposed = false;  // a matrix [in, out]

  // Of output channel o: the first, and how far apart they are.
  constexpr std::int64_t first(std::int64_t o) const { return transposed ? o : o * weight.taps * weight.in; }
  constexpr std::int64_t step() const { return transposed ? weight.out : 1; }
};
[[gnu::weak]] Prepared pack_int8_cuda(const Int8Source& source);

// Whether 8 bits do for a convolution of this weight [out, (kd, kh,) kw, in] (a layer's: [out, in]) and these groups.
bool is_int8_weight(const Shape& weight, std::int64_t groups);

// What the kernels of both products take: a layer is a convolution of images of one pixel. Inputs x, packed, scale,
// sums, bias; output y.
Prepared int8_ref(const ConvShape& s, bool with_bias);
Prepared int8_simd(const ConvShape& s, bool with_bias);
[[gnu::weak]] Prepared int8_cuda(const ConvShape& s);
inline Int8Weight int8_weight(const ConvShape& s) {
  return {.out = s.o, .taps = s.window.d.kernel * s.window.h.kernel * s.window.w.kernel, .in = s.c};
}

}  // namespace neap::ops
