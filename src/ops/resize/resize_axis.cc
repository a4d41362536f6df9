// One axis of a resize: from attributes to a rule, from there to tables.
#include <fmt/format.h>

#include <algorithm>

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

constexpr std::string_view kCoordinates[] = {"half_pixel",    "half_pixel_symmetric", "pytorch_half_pixel",
                                             "align_corners", "asymmetric",           "tf_crop_and_resize"};
constexpr std::string_view kRoundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
constexpr std::string_view kModes[] = {"nearest", "linear", "cubic"};

}  // namespace

ResizeRule resize_rule(ResizeRule sizes, const Attrs& attrs) {
  ResizeRule rule = sizes;
  rule.coordinates = static_cast<ResizeCoordinates>(choice(attrs, "coordinate_transformation_mode", kCoordinates));
  rule.mode = static_cast<ResizeMode>(choice(attrs, "mode", kModes));
  rule.rounding = static_cast<ResizeRounding>(choice(attrs, "nearest_mode", kRoundings));
  rule.exclude_outside = attrs.integer("exclude_outside", 0) != 0;
  rule.a = attrs.real("cubic_coeff_a", -0.75);
  rule.stretch = attrs.integer("antialias", 0) != 0 ? std::min(rule.scale, 1.0) : 1;
  return rule;
}

AxisTaps::AxisTaps(const ResizeRule& rule) : in(rule.in), out(rule.out) {
  for (std::int64_t o = 0; o < out; ++o) {
    rule.each_tap(o, [&](std::int64_t input, double w) {
      index.push_back(static_cast<std::int32_t>(input));
      weight.push_back(w);
    });
    begin.push_back(static_cast<std::int32_t>(index.size()));
    outside.push_back(rule.is_outside(rule.position(o)) ? 1 : 0);
  }
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
  AxisTaps taps;
  taps.in = out;
  taps.out = in;
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
