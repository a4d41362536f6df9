// Ops that move elements. Transposes cost nothing here: they are carried along with the operand.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "neap/error.h"
#include "onnx/context.h"
#include "onnx/limits.h"

namespace neap::onnx {
namespace {

Perm perm_of(const Ints& axes) { return {axes.begin(), axes.end()}; }

void transpose(Context& c) {
  const int rank = c.rank(0);
  Ints order(static_cast<std::size_t>(rank));
  std::iota(order.rbegin(), order.rend(), 0);
  const Ints perm = plain_axes(c.ints("perm", order), rank);
  if (static_cast<int>(perm.size()) != rank)
    throw UserError(fmt::format("perm has {} axes, not {}", perm.size(), rank));
  const Operand& x = c.operand(0);
  if (x.constant) return c.out(0, c.transpose(c.in(0), perm_of(perm)));
  Operand y = x;
  y.axes = compose(x.axes, perm_of(perm));
  if (is_identity(y.axes)) y.axes.clear();
  y.type.shape = permuted(x.type.shape, perm_of(perm));
  c.out(0, std::move(y));
}

}  // namespace

Shape resolved(Ints wanted, const Shape& x, bool copies_zero) {
  std::int64_t known = 1;
  std::int64_t* open = nullptr;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == 0 && copies_zero) {
      if (static_cast<int>(i) >= x.rank()) throw UserError("a 0 in the shape has no axis to copy");
      wanted[i] = x.size(static_cast<int>(i));
    }
    if (wanted[i] == -1 && open == nullptr) {
      open = &wanted[i];
    } else if (wanted[i] < 0) {
      throw UserError(fmt::format("the shape has {} in it", wanted[i]));
    } else if (__builtin_mul_overflow(known, wanted[i], &known)) {
      throw UserError("the shape is too large");
    }
  }
  if (open != nullptr) {
    if (known == 0 || x.count() % known != 0) throw UserError(fmt::format("-1 cannot be told from {}", x.text()));
    *open = x.count() / known;
  }
  return Shape::of(wanted);
}

namespace {

void reshape(Context& c) {
  const Shape to = resolved(c.ints(1), c.shape(0), c.integer("allowzero", 0) == 0);
  if (c.shape(0) == to) return c.out(0, c.operand(0));
  c.out(0, c.add("reshape", {c.in(0)}, {{"shape", to}}));
}

void flatten(Context& c) {
  const int rank = c.rank(0);
  const std::int64_t axis = c.integer("axis", 1);
  if (axis < -rank || axis > rank) throw UserError(fmt::format("there is no axis {} in rank {}", axis, rank));
  const std::int64_t cut = axis < 0 ? axis + rank : axis;
  Dim rows = 1;
  Dim columns = 1;
  for (int i = 0; i < rank; ++i) {
    Dim& side = i < cut ? rows : columns;
    side = side * c.shape(0)[i];
  }
  c.out(0, c.reshape(c.in(0), {rows, columns}));
}

void squeeze(Context& c) {
  const int rank = c.rank(0);
  Ints ones;
  for (int i = 0; i < rank; ++i) {
    if (c.shape(0).size(i) == 1) ones.push_back(i);
  }
  const Ints axes = plain_axes(c.ints(1, "axes", ones), rank);
  Shape to;
  for (int i = 0; i < rank; ++i) {
    const bool leaves = std::find(axes.begin(), axes.end(), i) != axes.end();
    if (leaves && c.shape(0).size(i) != 1) throw UserError(fmt::format("axis {} of {} is not 1", i, c.shape(0).text()));
    if (!leaves) to.push_back(c.shape(0)[i]);
  }
  c.out(0, c.reshape(c.in(0), to));
}

void unsqueeze(Context& c) {
  const Ints given = c.ints(1, "axes", {});
  const int rank = c.rank(0) + static_cast<int>(given.size());
  const Ints axes = plain_axes(given, rank);
  Shape to;
  for (int i = 0, from = 0; i < rank; ++i) {
    const bool is_new = std::find(axes.begin(), axes.end(), i) != axes.end();
    to.push_back(is_new ? Dim(1) : c.shape(0)[from++]);
  }
  c.out(0, c.reshape(c.in(0), to));
}

std::int64_t physical(const Perm& axes, int axis) { return axes.empty() ? axis : axes[static_cast<std::size_t>(axis)]; }

void concat(Context& c) {
  std::vector<std::size_t> which(c.inputs());
  std::iota(which.begin(), which.end(), 0U);
  if (which.empty()) throw UserError("it needs an input");
  const int axis = plain_axis(c.integer("axis"), c.rank(0));
  for (const std::size_t i : which) {
    if (c.rank(i) != c.rank(0)) throw UserError(fmt::format("input {} has another rank", i));
  }
  Perm axes;
  const Values x = c.together(which, axes);
  c.out(0, x.size() == 1 ? x[0] : c.add("concat", x, {{"axis", physical(axes, axis)}}), axes);
}

void split(Context& c) {
  const int axis = plain_axis(c.integer("axis", 0), c.rank(0));
  const std::int64_t whole = c.shape(0).size(axis);
  const auto count = static_cast<std::int64_t>(c.node.output_size());
  Ints sizes;
  if (c.has(1) || c.has_attr("split")) {
    sizes = c.ints(1, "split", {});
  } else {
    const std::int64_t parts = c.integer("num_outputs", count);
    if (parts < 1 || parts != count) throw UserError(fmt::format("{} parts for {} outputs", parts, count));
    const std::int64_t part = (whole + parts - 1) / parts;
    for (std::int64_t i = 0; i < parts; ++i) sizes.push_back(std::clamp<std::int64_t>(whole - i * part, 0, part));
  }
  if (static_cast<std::int64_t>(sizes.size()) != count) {
    throw UserError(fmt::format("{} sizes for {} outputs", sizes.size(), count));
  }
  Perm axes;
  const Value x = c.as_it_is(0, axes);
  const Values parts = c.add_all("split", {x}, {{"axis", physical(axes, axis)}, {"sizes", sizes}});
  for (std::size_t i = 0; i < parts.size(); ++i) c.out(i, parts[i], axes);
}

void slice(Context& c) {
  const Ints starts = c.ints(1);
  const Ints ends = c.ints(2);
  Ints all(starts.size());
  std::iota(all.begin(), all.end(), 0);
  Ints which = plain_axes(c.has(3) ? c.ints(3) : all, c.rank(0));
  const Ints steps = c.has(4) ? c.ints(4) : Ints(starts.size(), 1);
  if (ends.size() != starts.size() || which.size() != starts.size() || steps.size() != starts.size()) {
    throw UserError("starts, ends, axes and steps differ in length");
  }
  Perm axes;
  const Value x = c.as_it_is(0, axes);
  for (std::int64_t& axis : which) axis = physical(axes, static_cast<int>(axis));
  c.out(0, c.add("slice", {x}, {{"starts", starts}, {"ends", ends}, {"axes", which}, {"steps", steps}}), axes);
}

void expand(Context& c) {
  const Shape to = broadcast(c.shape(0), resolved(c.ints(1), {}, false));
  if (to == c.shape(0)) return c.out(0, c.operand(0));
  c.out(0, c.add("expand", {c.in(0)}, {{"shape", to}}));
}

void tile(Context& c) { c.out(0, c.add("tile", {c.in(0)}, {{"repeats", c.ints(1)}})); }

void shape(Context& c) {
  const std::int64_t rank = c.rank(0);
  const auto clamped = [&](std::int64_t i) { return std::clamp<std::int64_t>(i < 0 ? i + rank : i, 0, rank); };
  const std::int64_t start = clamped(c.integer("start", 0));
  const std::int64_t end = std::max(start, clamped(c.integer("end", rank)));
  const Ints sizes = c.sizes(0);
  c.out(0, make_ints({sizes.begin() + start, sizes.begin() + end}));
}

void size(Context& c) { c.out(0, make_scalar(c.shape(0).count())); }

void pad(Context& c) {
  const int rank = c.rank(0);
  const Ints given = c.ints(1, "pads", {});
  Ints which(static_cast<std::size_t>(rank));
  std::iota(which.begin(), which.end(), 0);
  if (c.has(3)) which = plain_axes(c.ints(3), rank);
  if (given.size() != 2 * which.size()) throw UserError(fmt::format("{} pads for {} axes", given.size(), which.size()));
  Perm axes;
  const Value x = c.as_it_is(0, axes);
  Ints pads(static_cast<std::size_t>(2 * rank));
  for (std::size_t i = 0; i < which.size(); ++i) {
    const auto axis = static_cast<std::size_t>(physical(axes, static_cast<int>(which[i])));
    pads[axis] = given[i];
    pads[axis + static_cast<std::size_t>(rank)] = given[i + which.size()];
  }
  const double value = c.has(2) && c.shape(2).count() > 0 ? c.real(2) : c.real("value", 0);
  c.out(0, c.add("pad", {x}, {{"pads", pads}, {"mode", c.text("mode", "constant")}, {"value", value}}), axes);
}

// [N,C,H,W] -> [N,C/b²,H*b,W*b] and back, as a reshape between axes that a transpose brings together.
void depth_to_space(Context& c) {
  const std::int64_t b = c.integer("blocksize");
  const Ints x = c.sizes(0);
  if (x.size() != 4 || b < 1 || b > kMaxSetting || x[1] % (b * b) != 0)
    throw UserError("the block does not divide the channels");
  const bool is_crd = c.text("mode", "DCR") == "CRD";
  const std::int64_t depth = x[1] / (b * b);
  const Shape apart = is_crd ? Shape{x[0], depth, b, b, x[2], x[3]} : Shape{x[0], b, b, depth, x[2], x[3]};
  const Value y = c.transpose(c.reshape(c.in(0), apart), is_crd ? Perm{0, 1, 4, 2, 5, 3} : Perm{0, 3, 4, 1, 5, 2});
  c.out(0, c.reshape(y, {x[0], depth, x[2] * b, x[3] * b}));
}

void space_to_depth(Context& c) {
  const std::int64_t b = c.integer("blocksize");
  const Ints x = c.sizes(0);
  if (x.size() != 4 || b < 1 || b > kMaxSetting || x[2] % b != 0 || x[3] % b != 0)
    throw UserError("the block does not divide the image");
  const Value y = c.transpose(c.reshape(c.in(0), {x[0], x[1], x[2] / b, b, x[3] / b, b}), {0, 3, 5, 1, 2, 4});
  c.out(0, c.reshape(y, {x[0], x[1] * b * b, x[2] / b, x[3] / b}));
}

void center_crop_pad(Context& c) {
  const int rank = c.rank(0);
  const Ints sizes = c.ints(1);
  Ints all(static_cast<std::size_t>(rank));
  std::iota(all.begin(), all.end(), 0);
  const Ints which = plain_axes(c.ints("axes", all), rank);
  if (which.size() != sizes.size()) throw UserError(fmt::format("{} sizes for {} axes", sizes.size(), which.size()));
  Ints pads(static_cast<std::size_t>(2 * rank));
  for (std::size_t i = 0; i < which.size(); ++i) {
    if (sizes[i] < 0) throw UserError(fmt::format("a size of {}", sizes[i]));
    const std::int64_t more = sizes[i] - c.shape(0).size(static_cast<int>(which[i]));
    // Rounded so that what is odd goes to the end when padding and is kept at the start when cutting.
    const std::int64_t before = more >= 0 ? more / 2 : -(-more / 2);
    pads[static_cast<std::size_t>(which[i])] = before;
    pads[static_cast<std::size_t>(which[i] + rank)] = more - before;
  }
  c.out(0, c.add("pad", {c.in(0)}, {{"pads", pads}}));
}

void trilu(Context& c) {
  const std::int64_t k = c.has(1) ? c.integer(1) : 0;
  c.out(0, c.add("trilu", {c.in(0)}, {{"k", k}, {"upper", c.integer("upper", 1)}}));
}

void reverse_sequence(Context& c) {
  c.out(0, c.add("reverse_sequence", {c.in(0), c.in(1)},
                 {{"time_axis", c.integer("time_axis", 0)}, {"batch_axis", c.integer("batch_axis", 1)}}));
}

constexpr RuleEntry kRules[] = {{"Transpose", transpose},
                                {"Reshape", reshape, 5},
                                {"Flatten", flatten},
                                {"Squeeze", squeeze},
                                {"Unsqueeze", unsqueeze},
                                {"Concat", concat, 4},
                                {"Split", split},
                                {"Slice", slice, 10},
                                {"Expand", expand},
                                {"Tile", tile, 6},
                                {"Shape", shape},
                                {"Size", size},
                                {"Pad", pad},
                                {"DepthToSpace", depth_to_space},
                                {"SpaceToDepth", space_to_depth},
                                {"CenterCropPad", center_crop_pad},
                                {"Trilu", trilu},
                                {"ReverseSequence", reverse_sequence}};

}  // namespace

std::span<const RuleEntry> shape_rules() { return kRules; }

}  // namespace neap::onnx
