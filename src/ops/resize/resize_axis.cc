// Coordinates and weights of one axis, as ONNX's Resize defines them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "neap/error.h"
#include "ops/resize/resize.h"

namespace neap::ops {
namespace {

template <std::size_t N>
std::size_t choice(const Attrs& attrs, const char* attribute, const std::string_view (&names)[N]) {
  const std::string text = attrs.text(attribute, names[0]);
  for (std::size_t i = 0; i < N; ++i) {
    if (names[i] == text) return i;
  }
  throw UserError(fmt::format("{} '{}' is none of those that ONNX has", attribute, text));
}

enum class Coordinates : std::uint8_t { kHalf, kHalfSymmetric, kPytorchHalf, kAlign, kAsymmetric, kCrop };
constexpr std::string_view kCoordinates[] = {"half_pixel",    "half_pixel_symmetric", "pytorch_half_pixel",
                                             "align_corners", "asymmetric",           "tf_crop_and_resize"};
enum class Rounding : std::uint8_t { kPreferFloor, kPreferCeil, kFloor, kCeil };
constexpr std::string_view kRoundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
enum class Mode : std::uint8_t { kNearest, kLinear, kCubic };
constexpr std::string_view kModes[] = {"nearest", "linear", "cubic"};

// Where output position x lies among the input's. The output's width counts with its fraction.
double original(const ResizeAxisCall& a, Coordinates how, double x) {
  const auto in = static_cast<double>(a.in);
  const double width = a.scale * in;
  switch (how) {
    case Coordinates::kAlign: return width == 1 ? 0 : x * (in - 1) / (width - 1);
    case Coordinates::kAsymmetric: return x / a.scale;
    case Coordinates::kCrop: {
      const double span = a.roi_end - a.roi_begin;
      const double inside = width == 1 ? span * (in - 1) / 2 : x * span * (in - 1) / (width - 1);
      return inside + a.roi_begin * (in - 1);
    }
    case Coordinates::kPytorchHalf: return width == 1 ? -0.5 : (x + 0.5) / a.scale - 0.5;
    case Coordinates::kHalf: return (x + 0.5) / a.scale - 0.5;
    case Coordinates::kHalfSymmetric: {
      const double offset = in / 2 * (1 - static_cast<double>(a.out) / width);
      return offset + (x + 0.5) / a.scale - 0.5;
    }
  }
  return x;
}

double linear_weight(double x) { return std::clamp(1 - std::fabs(x), 0.0, 1.0); }

double cubic_weight(double x, double a) {
  x = std::fabs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

struct Weights {
  Mode mode;
  Rounding rounding;
  double a;        // of the cubic
  double stretch;  // below 1: the filter is wider than the pixels
  bool exclude_outside;

  Weights(const Attrs& attrs, double scale)
      : mode(static_cast<Mode>(choice(attrs, "mode", kModes))),
        rounding(static_cast<Rounding>(choice(attrs, "nearest_mode", kRoundings))),
        a(attrs.real("cubic_coeff_a", -0.75)),
        stretch(attrs.integer("antialias", 0) != 0 ? std::min(scale, 1.0) : 1),
        exclude_outside(attrs.integer("exclude_outside", 0) != 0) {}

  double at(double distance) const {
    return mode == Mode::kLinear ? linear_weight(distance * stretch) : cubic_weight(distance * stretch, a);
  }

  // ratio in (0, 1]: how far behind its left neighbour the position lies.
  bool takes_right(double ratio) const {
    switch (rounding) {
      case Rounding::kPreferFloor: return ratio > 0.5;
      case Rounding::kPreferCeil: return ratio >= 0.5;
      case Rounding::kFloor: return ratio == 1;
      case Rounding::kCeil: return true;
    }
    return true;
  }

  // Adds the taps of a position; those outside fall on the edge.
  void add(AxisTaps& taps, double position) const {
    position = std::clamp(position, -0x1p40, 0x1p40);  // far outside: the edge
    const auto left = static_cast<std::int64_t>(std::ceil(position)) - 1;
    const double ratio = position - static_cast<double>(left);
    if (mode == Mode::kNearest) return push(taps, left + (takes_right(ratio) ? 1 : 0), 1);
    const double reach = mode == Mode::kLinear ? 1 : 2;
    const auto first = static_cast<std::int64_t>(std::floor(-reach / stretch)) + 1;
    double sum = 0;
    const auto weight_of = [&](std::int64_t i) {
      const bool is_inside = left + i >= 0 && left + i < taps.in;
      return exclude_outside && !is_inside ? 0 : at(static_cast<double>(i) - ratio);
    };
    for (std::int64_t i = first; i <= 1 - first; ++i) sum += weight_of(i);
    for (std::int64_t i = first; i <= 1 - first; ++i) push(taps, left + i, sum == 0 ? 0 : weight_of(i) / sum);
  }

  static void push(AxisTaps& taps, std::int64_t at, double weight) {
    const auto index = static_cast<std::int32_t>(std::clamp<std::int64_t>(at, 0, taps.in - 1));
    const bool has_tap = static_cast<std::int32_t>(taps.index.size()) > taps.begin.back();
    if (weight == 0) return;
    if (has_tap && taps.index.back() == index) {
      taps.weight.back() += weight;
      return;
    }
    taps.index.push_back(index);
    taps.weight.push_back(weight);
  }
};

}  // namespace

AxisTaps axis_taps(const ResizeAxisCall& axis, const Attrs& attrs) {
  const auto how = static_cast<Coordinates>(choice(attrs, "coordinate_transformation_mode", kCoordinates));
  const Weights weights(attrs, axis.scale);
  AxisTaps taps{.in = axis.in, .out = axis.out};
  for (std::int64_t o = 0; o < axis.out; ++o) {
    const double position = original(axis, how, static_cast<double>(o));
    const bool outside = how == Coordinates::kCrop && !(position >= 0 && position <= static_cast<double>(axis.in - 1));
    if (!outside) weights.add(taps, position);
    taps.begin.push_back(static_cast<std::int32_t>(taps.index.size()));
    taps.outside.push_back(outside ? 1 : 0);
  }
  return taps;
}

bool AxisTaps::is_identity() const {
  if (in != out || static_cast<std::int64_t>(index.size()) != in) return false;
  for (std::size_t i = 0; i < index.size(); ++i) {
    if (index[i] != static_cast<std::int32_t>(i) || weight[i] != 1 || begin[i] != static_cast<std::int32_t>(i)) {
      return false;
    }
  }
  return true;
}

AxisTaps AxisTaps::transposed() const {
  std::vector<std::vector<std::pair<std::int32_t, double>>> rows(static_cast<std::size_t>(in));
  for (std::size_t o = 0; o + 1 < begin.size(); ++o) {
    for (auto t = static_cast<std::size_t>(begin[o]); t < static_cast<std::size_t>(begin[o + 1]); ++t) {
      rows[static_cast<std::size_t>(index[t])].emplace_back(static_cast<std::int32_t>(o), weight[t]);
    }
  }
  AxisTaps taps{.in = out, .out = in};
  for (const auto& row : rows) {
    for (const auto& [o, w] : row) {
      taps.index.push_back(o);
      taps.weight.push_back(w);
    }
    taps.begin.push_back(static_cast<std::int32_t>(taps.index.size()));
    taps.outside.push_back(0);
  }
  return taps;
}

}  // namespace neap::ops
