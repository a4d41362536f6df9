// reshape, flatten, squeeze, unsqueeze: the same elements under another shape; views.
#include <fmt/format.h>

#include "neap/error.h"
#include "ops/shape_util/axes.h"
#include "ops/shape_util/strided.h"

namespace neap::ops {
namespace {

std::optional<std::int64_t> whole(const OpCall& /*call*/) { return 0; }

Types retyped(const OpCall& call, Shape shape) { return {{call.in(0).dtype, std::move(shape)}}; }

// Whatever the symbols are bound to (0 apart), they cannot be equal.
bool surely_differ(const Dim& a, const Dim& b) {
  if (is_unknown(a) || is_unknown(b) || a == b) return false;
  if (a.factor() == 0 || b.factor() == 0) return a.is_number() && b.is_number();
  return a / Dim(a.factor()) == b / Dim(b.factor());
}

// What is left for the axis written as -1.
Dim share(const Dim& all, const Dim& rest) {
  if (all.is_number() && rest.is_number() && (rest == Dim(0) || all.number() % rest.number() != 0)) {
    throw UserError(fmt::format("{} elements do not divide by {}", all.text(), rest.text()));
  }
  return all / rest;
}

// "shape": 0 takes the input's axis of that place, one -1 takes what is left.
Types infer_reshape(const OpCall& call) {
  const Shape& from = call.shape(0);
  Shape to = call.attrs.shape("shape");
  int open = -1;
  Dim rest = 1;
  for (int i = 0; i < to.rank(); ++i) {
    if (to[i] == Dim(-1)) {
      if (open >= 0) throw UserError(fmt::format("shape {} leaves two axes open", to.text()));
      open = i;
      continue;
    }
    if (to[i].factor() < 0) throw UserError(fmt::format("shape {} has a negative axis", to.text()));
    if (to[i] == Dim(0)) {
      if (i >= from.rank()) throw UserError(fmt::format("shape {} copies axis {}, which is not there", to.text(), i));
      to[i] = from[i];
    }
    rest = rest * to[i];
  }
  const Dim all = from.elements();
  if (open >= 0) to[open] = share(all, rest);
  if (open < 0 && surely_differ(all, rest)) {
    throw UserError(fmt::format("shape {} has {} elements, the input has {}", to.text(), rest.text(), all.text()));
  }
  return retyped(call, std::move(to));
}

Values restore(GradientCall& c) {
  return {c.g("reshape", {c.dy[0]}, {{"shape", shape_to_restore(c.g.shape(c.x(0)))}})};
}

// Axes before "axis" become the first, the others the second.
Types infer_flatten(const OpCall& call) {
  const Shape& from = call.shape(0);
  const std::int64_t axis = call.attrs.integer("axis", 1);
  const int cut = axis == from.rank() ? from.rank() : axis_of(axis, from.rank());
  Dim before = 1;
  Dim after = 1;
  for (int i = 0; i < from.rank(); ++i) (i < cut ? before : after) = (i < cut ? before : after) * from[i];
  return retyped(call, {before, after});
}

std::vector<bool> marked(const Ints& axes, int rank) {
  std::vector<bool> is_marked(static_cast<std::size_t>(rank));
  for (const std::int64_t axis : axes_of(axes, rank)) is_marked[static_cast<std::size_t>(axis)] = true;
  return is_marked;
}

Types infer_squeeze(const OpCall& call) {
  const Shape& from = call.shape(0);
  const std::vector<bool> leaves = marked(call.attrs.ints("axes"), from.rank());
  Shape to;
  for (int i = 0; i < from.rank(); ++i) {
    if (!leaves[static_cast<std::size_t>(i)]) {
      to.push_back(from[i]);
    } else if (from[i].is_number() && from[i] != Dim(1)) {
      throw UserError(fmt::format("axis {} of {} is not 1", i, from.text()));
    }
  }
  return retyped(call, std::move(to));
}

// "axes" are those of the output.
Types infer_unsqueeze(const OpCall& call) {
  const Shape& from = call.shape(0);
  const Ints axes = call.attrs.ints("axes");
  const int rank = from.rank() + static_cast<int>(axes.size());
  const std::vector<bool> comes = marked(axes, rank);
  Shape to;
  for (int i = 0, next = 0; i < rank; ++i) to.push_back(comes[static_cast<std::size_t>(i)] ? Dim(1) : from[next++]);
  return retyped(call, std::move(to));
}

Values gradient_squeeze(GradientCall& c) {
  const Ints axes = axes_of(c.node.attrs.ints("axes"), c.g.shape(c.x(0)).rank());
  return {c.g("unsqueeze", {c.dy[0]}, {{"axes", axes}})};
}

Values gradient_unsqueeze(GradientCall& c) {
  const Ints axes = axes_of(c.node.attrs.ints("axes"), c.g.shape(c.y(0)).rank());
  return {c.g("squeeze", {c.dy[0]}, {{"axes", axes}})};
}

constexpr KernelEntry kKernels[] = {{"cuda", DeviceKind::kCuda, copy_whole_cuda},
                                    {"ref", DeviceKind::kCpu, copy_whole}};
constexpr InOut kInPlace[] = {{0, 0}};

constexpr OpDef view(std::string_view name, Types (*infer)(const OpCall&), Values (*gradient)(GradientCall&)) {
  return {.name = name,
          .infer = infer,
          .gradient = gradient,
          .kernels = kKernels,
          .kernel_count = std::size(kKernels),
          .flops = no_flops,
          .in_place = kInPlace,
          .view_offset = whole,
          .cheap = true};
}

}  // namespace

extern constinit const OpDef reshape = view("reshape", infer_reshape, restore);
extern constinit const OpDef flatten = view("flatten", infer_flatten, restore);
extern constinit const OpDef squeeze = view("squeeze", infer_squeeze, gradient_squeeze);
extern constinit const OpDef unsqueeze = view("unsqueeze", infer_unsqueeze, gradient_unsqueeze);

}  // namespace neap::ops
