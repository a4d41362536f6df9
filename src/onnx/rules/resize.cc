// Resizing.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "neap/error.h"
#include "onnx/context.h"
#include "onnx/limits.h"

namespace neap::onnx {
namespace {

struct Scaling {
  std::vector<double> scales;
  Ints sizes;
};

std::int64_t whole(double size) {
  if (!(size < static_cast<double>(kMaxTensor))) throw UserError("the result would be too large");
  return static_cast<std::int64_t>(std::floor(size));
}

// Sizes for all axes from what the node gives for some of them.
Scaling scaling_of(const Context& c, const Ints& axes, std::size_t scales_at, std::size_t sizes_at) {
  const int rank = c.rank(0);
  Scaling out{.scales = std::vector<double>(static_cast<std::size_t>(rank), 1.0), .sizes = c.sizes(0)};
  if (c.has(scales_at) && c.shape(scales_at).count() > 0) {
    const std::vector<double> given = c.reals(scales_at);
    if (given.size() != axes.size()) throw UserError(fmt::format("{} scales for {} axes", given.size(), axes.size()));
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const auto axis = static_cast<std::size_t>(axes[i]);
      if (!(given[i] > 0)) throw UserError("scales must be positive");
      out.scales[axis] = given[i];
      out.sizes[axis] = whole(static_cast<double>(out.sizes[axis]) * given[i]);
    }
    return out;
  }
  const Ints given = c.ints(sizes_at);
  if (given.size() != axes.size()) throw UserError(fmt::format("{} sizes for {} axes", given.size(), axes.size()));
  const std::string aspect = c.text("keep_aspect_ratio_policy", "stretch");
  double common = aspect == "not_larger" ? 1e30 : 0;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const double scale =
        static_cast<double>(given[i]) / static_cast<double>(c.shape(0).size(static_cast<int>(axes[i])));
    common = aspect == "not_larger" ? std::min(common, scale) : std::max(common, scale);
  }
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(axes[i]);
    const auto size = static_cast<double>(out.sizes[axis]);
    const bool is_free = aspect == "stretch";
    out.scales[axis] = is_free ? static_cast<double>(given[i]) / size : common;
    out.sizes[axis] = is_free ? given[i] : whole(size * common + 0.5);
  }
  return out;
}

template <class T>
T reordered(const T& values, const Perm& perm) {
  T out;
  for (const int axis : perm) out.push_back(values[static_cast<std::size_t>(axis)]);
  return out;
}

void resize(Context& c) {
  const bool is_old = c.node.op_type() == "Upsample";
  const int rank = c.rank(0);
  Ints all;
  for (int i = 0; i < rank; ++i) all.push_back(i);
  const Ints axes = plain_axes(c.ints("axes", all), rank);
  const Scaling s = is_old ? scaling_of(c, axes, 1, 9) : scaling_of(c, axes, 2, 3);
  std::vector<double> roi;
  if (!is_old && c.has(1) && c.text("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize") {
    const std::vector<double> given = c.reals(1);
    const auto count = static_cast<std::size_t>(rank);
    roi.assign(2 * count, 0.0);
    for (std::size_t i = 0; i < count; ++i) roi[i + count] = 1;
    if (given.size() != 2 * axes.size()) throw UserError("roi must have two numbers an axis");
    for (std::size_t i = 0; i < axes.size(); ++i) {
      roi[static_cast<std::size_t>(axes[i])] = given[i];
      roi[static_cast<std::size_t>(axes[i] + rank)] = given[i + axes.size()];
    }
  }
  const Perm last = rank >= 3 ? channels_last(rank) : Perm{};
  const auto move = [&](const auto& v) { return rank >= 3 ? reordered(v, last) : v; };
  Attrs attrs = {{"sizes", move(s.sizes)},
                 {"scales", move(s.scales)},
                 {"mode", c.text("mode", "nearest")},
                 {"coordinate_transformation_mode",
                  is_old ? std::string("asymmetric") : c.text("coordinate_transformation_mode", "half_pixel")},
                 {"nearest_mode", is_old ? std::string("floor") : c.text("nearest_mode", "round_prefer_floor")},
                 {"cubic_coeff_a", c.real("cubic_coeff_a", -0.75)},
                 {"exclude_outside", c.integer("exclude_outside", 0)},
                 {"antialias", c.integer("antialias", 0)},
                 {"extrapolation_value", c.real("extrapolation_value", 0)}};
  if (!roi.empty()) {
    std::vector<double> starts(roi.begin(), roi.begin() + rank);
    std::vector<double> ends(roi.begin() + rank, roi.end());
    starts = move(starts);
    const std::vector<double> moved_ends = move(ends);
    starts.insert(starts.end(), moved_ends.begin(), moved_ends.end());
    attrs.set("roi", starts);
  }
  const Value y = c.add("resize", {c.moved(0, last)}, attrs);
  c.out(0, y, rank >= 3 ? inverse(last) : Perm{});
}

constexpr RuleEntry kRules[] = {{"Resize", resize, 11}, {"Upsample", resize, 9}};

}  // namespace

std::span<const RuleEntry> resize_rules() { return kRules; }

}  // namespace neap::onnx
