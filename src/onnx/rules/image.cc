// Convolutions, pools and the like. Neap has images channels-last; the operands' axes carry that along.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "neap/error.h"
#include "onnx/context.h"
#include "onnx/limits.h"

namespace neap::onnx {
namespace {

struct Geometry {
  Ints kernel, strides, dilations, pads;
  std::size_t axes() const { return kernel.size(); }
};

Geometry geometry_of(const Context& c, Ints kernel) {
  const std::size_t n = kernel.size();
  Geometry out{.kernel = std::move(kernel),
               .strides = c.ints("strides", Ints(n, 1)),
               .dilations = c.ints("dilations", Ints(n, 1)),
               .pads = c.ints("pads", Ints(2 * n, 0))};
  if (out.strides.size() != n || out.dilations.size() != n || out.pads.size() != 2 * n) {
    throw UserError(fmt::format("strides, dilations and pads must be those of {} axes", n));
  }
  for (std::size_t i = 0; i < n; ++i) {
    if (out.strides[i] < 1 || out.dilations[i] < 1 || out.kernel[i] < 1) {
      throw UserError("kernel, strides and dilations must be positive");
    }
  }
  for (const Ints* settings : {&out.kernel, &out.strides, &out.dilations, &out.pads}) {
    for (const std::int64_t value : *settings) {
      if (value < -kMaxSetting || value > kMaxSetting) throw UserError(fmt::format("{} is out of range", value));
    }
  }
  return out;
}

void share_out(std::int64_t total, bool more_at_end, std::int64_t& begin, std::int64_t& end) {
  begin = more_at_end ? total / 2 : total - total / 2;
  end = total - begin;
}

// Pads that make the result ceil(size / stride) long.
void pad_automatically(const Context& c, Geometry& g) {
  const std::string how = c.text("auto_pad", "NOTSET");
  if (how == "NOTSET" || how.empty()) return;
  const std::size_t n = g.axes();
  g.pads = Ints(2 * n, 0);
  if (how == "VALID") return;
  if (how != "SAME_UPPER" && how != "SAME_LOWER") throw UserError(fmt::format("auto_pad '{}' is unknown", how));
  for (std::size_t i = 0; i < n; ++i) {
    const std::int64_t size = c.shape(0).size(static_cast<int>(i) + 2);
    const std::int64_t out = (size + g.strides[i] - 1) / g.strides[i];
    const std::int64_t reach = (g.kernel[i] - 1) * g.dilations[i] + 1;
    const std::int64_t total = std::max<std::int64_t>(0, (out - 1) * g.strides[i] + reach - size);
    share_out(total, how == "SAME_UPPER", g.pads[i], g.pads[i + n]);
  }
}

Attrs attrs_of(const Geometry& g) { return {{"strides", g.strides}, {"pads", g.pads}, {"dilations", g.dilations}}; }

void need_image(const Context& c, std::size_t i) {
  if (c.rank(i) < 3) throw UserError(fmt::format("it takes [N,C,...], not {}", c.shape(i).text()));
}

// The weight in input 1 is for images of input 0's rank.
void need_kernel(const Context& c) {
  need_image(c, 0);
  if (c.rank(1) != c.rank(0)) throw UserError("the weight has another rank than the input");
}

Ints spatial(const Shape& shape) {
  const Ints sizes = shape.sizes();
  return {sizes.begin() + 2, sizes.end()};
}

void finish(Context& c, Value y) { c.out(0, y, inverse(channels_last(c.g.shape(y).rank()))); }

void conv(Context& c) {
  need_kernel(c);
  Geometry g = geometry_of(c, c.ints("kernel_shape", spatial(c.shape(1))));
  if (g.kernel != spatial(c.shape(1))) throw UserError("kernel_shape is not that of the weight");
  pad_automatically(c, g);
  const Perm last = channels_last(c.rank(0));
  Attrs attrs = attrs_of(g);
  attrs.set("groups", c.integer("group", 1));
  Values x = {c.moved(0, last), c.moved(1, last)};
  if (c.has(2)) x.push_back(c.in(2));
  finish(c, c.add("conv", x, attrs));
}

// Pads from the shape that is asked for, or from auto_pad.
void fit_output(const Context& c, Geometry& g, Ints& more) {
  const std::string how = c.text("auto_pad", "NOTSET");
  Ints wanted = c.ints("output_shape", {});
  const std::size_t n = g.axes();
  if (wanted.size() == n + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  const bool is_same = how == "SAME_UPPER" || how == "SAME_LOWER";
  if (wanted.empty() && !is_same) return;
  if (!wanted.empty() && wanted.size() != n) throw UserError("output_shape must name the spatial axes");
  for (std::size_t i = 0; i < n; ++i) {
    const std::int64_t size = c.shape(0).size(static_cast<int>(i) + 2);
    const std::int64_t out = wanted.empty() ? size * g.strides[i] : wanted[i];
    if (std::max(out, more[i]) > kMaxTensor || std::min(out, more[i]) < 0) throw UserError("the output cannot be so");
    const std::int64_t full = g.strides[i] * (size - 1) + more[i] + (g.kernel[i] - 1) * g.dilations[i] + 1;
    const std::int64_t total = full - out;
    if (total < 0) more[i] += -total;
    share_out(std::max<std::int64_t>(0, total), how == "SAME_UPPER", g.pads[i], g.pads[i + n]);
  }
}

void conv_transpose(Context& c) {
  need_kernel(c);
  Geometry g = geometry_of(c, c.ints("kernel_shape", spatial(c.shape(1))));
  if (g.kernel != spatial(c.shape(1))) throw UserError("kernel_shape is not that of the weight");
  Ints more = c.ints("output_padding", Ints(g.axes(), 0));
  if (more.size() != g.axes()) throw UserError("output_padding must name the spatial axes");
  fit_output(c, g, more);
  const Perm last = channels_last(c.rank(0));
  Attrs attrs = attrs_of(g);
  attrs.set("groups", c.integer("group", 1));
  attrs.set("output_padding", more);
  Values x = {c.moved(0, last), c.moved(1, last)};
  if (c.has(2)) x.push_back(c.in(2));
  finish(c, c.add("conv_transpose", x, attrs));
}

// A window that is longer than the image and its pads, where ceil_mode lets it stand, sees no more than those.
void shorten(const Context& c, Geometry& g) {
  const std::size_t n = g.axes();
  for (std::size_t i = 0; i < n; ++i) {
    const std::int64_t whole = c.shape(0).size(static_cast<int>(i) + 2) + g.pads[i] + g.pads[i + n];
    if (g.dilations[i] == 1 && g.kernel[i] > whole) g.kernel[i] = whole;
  }
}

void pool(Context& c) {
  need_image(c, 0);
  Geometry g = geometry_of(c, c.ints("kernel_shape", {}));
  if (static_cast<int>(g.axes()) != c.rank(0) - 2) throw UserError("kernel_shape must name the spatial axes");
  pad_automatically(c, g);
  const bool is_max = c.node.op_type() == "MaxPool";
  const bool rounds_up = c.integer("ceil_mode", 0) != 0;
  if (rounds_up) shorten(c, g);
  const bool is_dilated = std::any_of(g.dilations.begin(), g.dilations.end(), [](std::int64_t d) { return d > 1; });
  if (!is_max && rounds_up && is_dilated && c.integer("count_include_pad", 0) != 0) {
    throw UserError(
        "dilations with ceil_mode and count_include_pad are not supported: what to divide by is not defined");
  }
  Attrs attrs = attrs_of(g);
  attrs.set("kernel", g.kernel);
  attrs.set("ceil_mode", c.integer("ceil_mode", 0));
  if (!is_max) attrs.set("count_include_pad", c.integer("count_include_pad", 0));
  const DType type = c.dtype(0);
  const Value x = c.cast(c.moved(0, channels_last(c.rank(0))), DType::kF32);
  const Values y = c.add_all(is_max ? "max_pool" : "average_pool", {x}, attrs);
  finish(c, c.cast(y[0], type));
  if (!c.wants(1)) return;
  attrs.set("shape", c.g.shape(x));
  attrs.set("storage_order", c.integer("storage_order", 0));
  c.out(1, c.add("max_pool_indices", {y[1]}, attrs), inverse(channels_last(c.rank(0))));
}

void global_pool(Context& c) {
  need_image(c, 0);
  const bool is_max = c.node.op_type() == "GlobalMaxPool";
  finish(c, c.add(is_max ? "global_max_pool" : "global_average_pool", {c.moved(0, channels_last(c.rank(0)))}));
}

void lp_pool(Context& c) {
  need_image(c, 0);
  Geometry g = geometry_of(c, c.ints("kernel_shape", {}));
  if (static_cast<int>(g.axes()) != c.rank(0) - 2) throw UserError("kernel_shape must name the spatial axes");
  pad_automatically(c, g);
  Attrs attrs = attrs_of(g);
  attrs.set("kernel", g.kernel);
  attrs.set("ceil_mode", c.integer("ceil_mode", 0));
  attrs.set("p", c.integer("p", 2));
  finish(c, c.add("lp_pool", {c.moved(0, channels_last(c.rank(0)))}, attrs));
}

void max_unpool(Context& c) {
  need_image(c, 0);
  const Geometry g = geometry_of(c, c.ints("kernel_shape", {}));
  if (static_cast<int>(g.axes()) != c.rank(0) - 2) throw UserError("kernel_shape must name the spatial axes");
  Ints sizes = c.sizes(0);
  const std::size_t n = g.axes();
  for (std::size_t i = 0; i < n; ++i) {
    sizes[i + 2] = (sizes[i + 2] - 1) * g.strides[i] + g.kernel[i] - g.pads[i] - g.pads[i + n];
  }
  if (c.has(2) && c.ints(2) != sizes) throw UserError("an output_shape other than the plain one is not supported");
  const Perm last = channels_last(c.rank(0));
  const Shape shape = permuted(Shape::of(sizes), last);
  if (c.rank(1) != c.rank(0)) throw UserError("the indices have another rank than the input");
  finish(c, c.add("max_unpool", {c.moved(0, last), c.moved(1, last)}, {{"shape", shape}}));
}

void lrn(Context& c) {
  need_image(c, 0);
  const Value x = c.moved(0, channels_last(c.rank(0)));
  finish(c, c.add("lrn", {x},
                  {{"size", c.integer("size")},
                   {"alpha", c.real("alpha", 0.0001F)},
                   {"beta", c.real("beta", 0.75)},
                   {"bias", c.real("bias", 1)}}));
}

void grid_sample(Context& c) {
  need_image(c, 0);
  std::string mode = c.text("mode", "linear");
  if (mode == "bilinear") mode = "linear";
  if (mode == "bicubic") mode = "cubic";
  finish(c, c.add("grid_sample", {c.moved(0, channels_last(c.rank(0))), c.in(1)},
                  {{"mode", mode},
                   {"padding_mode", c.text("padding_mode", "zeros")},
                   {"align_corners", c.integer("align_corners", 0)}}));
}

void roi_align(Context& c) {
  need_image(c, 0);
  finish(c, c.add("roi_align", {c.moved(0, channels_last(c.rank(0))), c.in(1), c.in(2)},
                  {{"output_height", c.integer("output_height", 1)},
                   {"output_width", c.integer("output_width", 1)},
                   {"sampling_ratio", c.integer("sampling_ratio", 0)},
                   {"spatial_scale", c.real("spatial_scale", 1)},
                   {"mode", c.text("mode", "avg")},
                   {"coordinate_transformation_mode", c.text("coordinate_transformation_mode", "half_pixel")}}));
}

void deform_conv(Context& c) {
  need_kernel(c);
  const Geometry g = geometry_of(c, c.ints("kernel_shape", spatial(c.shape(1))));
  const Perm last = channels_last(c.rank(0));
  Attrs attrs = attrs_of(g);
  attrs.set("groups", c.integer("group", 1));
  attrs.set("offset_groups", c.integer("offset_group", 1));
  for (const std::size_t i : {2UL, 4UL}) {
    if (c.has(i)) c.need_rank(i, c.rank(0), c.rank(0));
  }
  Values x = {c.moved(0, last), c.moved(1, last), c.moved(2, last), c.in(3)};
  if (c.has(4)) x.push_back(c.moved(4, last));
  finish(c, c.add("deform_conv", x, attrs));
}

void col2im(Context& c) {
  const Ints image = c.ints(1);
  if (image.size() > static_cast<std::size_t>(kMaxRank)) throw UserError("the image has too many axes");
  const Geometry g = geometry_of(c, c.ints(2));
  Attrs attrs = attrs_of(g);
  attrs.set("image", image);
  attrs.set("kernel", g.kernel);
  finish(c, c.add("col2im", {c.in(0)}, attrs));
}

void conv_integer(Context& c) {
  need_kernel(c);
  Geometry g = geometry_of(c, c.ints("kernel_shape", spatial(c.shape(1))));
  if (g.kernel != spatial(c.shape(1))) throw UserError("kernel_shape is not that of the weight");
  pad_automatically(c, g);
  const Perm last = channels_last(c.rank(0));
  Attrs attrs = attrs_of(g);
  attrs.set("groups", c.integer("group", 1));
  finish(c, c.add("conv_integer", {c.moved(0, last), c.moved(1, last), c.in(2), c.in(3)}, attrs));
}

constexpr RuleEntry kRules[] = {{"Conv", conv},
                                {"GridSample", grid_sample},
                                {"RoiAlign", roi_align},
                                {"DeformConv", deform_conv},
                                {"Col2Im", col2im},
                                {"ConvInteger", conv_integer},
                                {"MaxUnpool", max_unpool},
                                {"ConvTranspose", conv_transpose},
                                {"MaxPool", pool},
                                {"AveragePool", pool},
                                {"GlobalAveragePool", global_pool},
                                {"GlobalMaxPool", global_pool},
                                {"LpPool", lp_pool},
                                {"LRN", lrn}};

}  // namespace

std::span<const RuleEntry> image_rules() { return kRules; }

}  // namespace neap::onnx
