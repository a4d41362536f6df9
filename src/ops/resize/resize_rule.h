// One axis of a resize as arithmetic, the same on every device: where an output lies among the inputs, and what it
// takes from which of them, as ONNX's Resize defines it.
#pragma once

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define NEAP_IN_KERNELS __device__
#else
#define NEAP_IN_KERNELS
#endif

namespace neap::ops {

enum class ResizeCoordinates : std::uint8_t { kHalf, kHalfSymmetric, kPytorchHalf, kAlign, kAsymmetric, kCrop };
enum class ResizeRounding : std::uint8_t { kPreferFloor, kPreferCeil, kFloor, kCeil };
enum class ResizeMode : std::uint8_t { kNearest, kLinear, kCubic };

struct ResizeRule {
  std::int64_t in = 1;
  std::int64_t out = 1;
  double scale = 1;
  double roi_begin = 0;
  double roi_end = 1;
  ResizeCoordinates coordinates = ResizeCoordinates::kHalf;
  ResizeMode mode = ResizeMode::kNearest;
  ResizeRounding rounding = ResizeRounding::kPreferFloor;
  bool exclude_outside = false;
  double a = -0.75;    // of the cubic
  double stretch = 1;  // below 1: the filter is wider than the pixels

  struct Outputs {
    std::int64_t first, end;
  };

  // Where output o lies among the inputs. The output's width counts with its fraction.
  NEAP_IN_KERNELS double position(std::int64_t o) const {
    const auto x = static_cast<double>(o);
    const double last = static_cast<double>(in) - 1;
    switch (coordinates) {
      case ResizeCoordinates::kAlign: return width() == 1 ? 0 : x * last / (width() - 1);
      case ResizeCoordinates::kAsymmetric: return x / scale;
      case ResizeCoordinates::kCrop: {
        const double span = roi_end - roi_begin;
        return (width() == 1 ? span * last / 2 : x * span * last / (width() - 1)) + roi_begin * last;
      }
      case ResizeCoordinates::kPytorchHalf: return width() == 1 ? -0.5 : (x + 0.5) / scale - 0.5;
      case ResizeCoordinates::kHalfSymmetric: {
        const double offset = static_cast<double>(in) / 2 * (1 - static_cast<double>(out) / width());
        return offset + (x + 0.5) / scale - 0.5;
      }
      default: return (x + 0.5) / scale - 0.5;
    }
  }
  NEAP_IN_KERNELS bool is_outside(double at) const {
    return coordinates == ResizeCoordinates::kCrop && !(at >= 0 && at <= static_cast<double>(in - 1));
  }

  // f(input, weight) for what output o takes. Inputs beyond an edge fall on it; none when o lies outside of the crop.
  template <class F>
  NEAP_IN_KERNELS void each_tap(std::int64_t o, F f) const {
    double at = position(o);
    if (is_outside(at)) return;
    at = at < -0x1p40 ? -0x1p40 : at > 0x1p40 ? 0x1p40 : at;  // far outside: the edge
    const auto left = static_cast<std::int64_t>(std::ceil(at)) - 1;
    const double ratio = at - static_cast<double>(left);
    if (mode == ResizeMode::kNearest) return f(inside(left + (takes_right(ratio) ? 1 : 0)), 1.0);
    double sum = 0;
    for (std::int64_t i = first_tap(); i <= 1 - first_tap(); ++i) sum += weight(left + i, i, ratio);
    if (sum == 0) return;
    std::int64_t held = -1;  // neighbours that fall on the same input are one tap
    double held_weight = 0;
    for (std::int64_t i = first_tap(); i <= 1 - first_tap(); ++i) {
      const double w = weight(left + i, i, ratio) / sum;
      if (w == 0) continue;
      const std::int64_t to = inside(left + i);
      if (held >= 0 && held != to) f(held, held_weight);
      held_weight = held == to ? held_weight + w : w;
      held = to;
    }
    if (held >= 0) f(held, held_weight);
  }

  // All outputs that take from input i are among these.
  NEAP_IN_KERNELS Outputs takers(std::int64_t i) const {
    const double rise = slope();
    if (rise == 0) return {0, out};
    constexpr double kFar = 0x1p60;
    constexpr double kRounding = 2;  // more than what rounding can move
    const double reach = mode == ResizeMode::kNearest ? 1 : static_cast<double>(1 - first_tap());
    const double low = i == 0 ? -kFar : static_cast<double>(i) - reach;
    const double high = i == in - 1 ? kFar : static_cast<double>(i) + reach;
    const double a_side = (low - position(0)) / rise;
    const double b_side = (high - position(0)) / rise;
    const double first = std::floor(a_side < b_side ? a_side : b_side) - kRounding;
    const double last = std::ceil(a_side < b_side ? b_side : a_side) + kRounding;
    return {limited(first), limited(last + 1)};
  }

 private:
  NEAP_IN_KERNELS double width() const { return scale * static_cast<double>(in); }
  // How far one output lies behind the one before.
  NEAP_IN_KERNELS double slope() const {
    const double last = static_cast<double>(in) - 1;
    switch (coordinates) {
      case ResizeCoordinates::kAlign: return width() == 1 ? 0 : last / (width() - 1);
      case ResizeCoordinates::kCrop: return width() == 1 ? 0 : (roi_end - roi_begin) * last / (width() - 1);
      case ResizeCoordinates::kPytorchHalf: return width() == 1 ? 0 : 1 / scale;
      default: return 1 / scale;
    }
  }

  // The first tap, counted from the input left of the position; the last one is 1 - first_tap().
  NEAP_IN_KERNELS std::int64_t first_tap() const {
    const double reach = mode == ResizeMode::kLinear ? 1 : 2;
    return static_cast<std::int64_t>(std::floor(-reach / stretch)) + 1;
  }
  NEAP_IN_KERNELS double weight(std::int64_t input, std::int64_t i, double ratio) const {
    if (exclude_outside && (input < 0 || input >= in)) return 0;
    const double x = std::fabs((static_cast<double>(i) - ratio) * stretch);
    if (mode == ResizeMode::kLinear) return x < 1 ? 1 - x : 0;
    if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
  }
  // ratio in (0, 1]: how far behind its left neighbour the position lies.
  NEAP_IN_KERNELS bool takes_right(double ratio) const {
    switch (rounding) {
      case ResizeRounding::kPreferFloor: return ratio > 0.5;
      case ResizeRounding::kPreferCeil: return ratio >= 0.5;
      case ResizeRounding::kFloor: return ratio == 1;
      default: return true;
    }
  }
  NEAP_IN_KERNELS std::int64_t inside(std::int64_t input) const { return input < 0 ? 0 : input < in ? input : in - 1; }
  NEAP_IN_KERNELS std::int64_t limited(double o) const {
    return o <= 0 ? 0 : o >= static_cast<double>(out) ? out : static_cast<std::int64_t>(o);
  }
};

}  // namespace neap::ops

#undef NEAP_IN_KERNELS
