#include "ops/reduce/reduce_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "neap/error.h"
#include "ops/reduce/reduce.h"

namespace neap::ops {
namespace {

void push_axis(ReducePlan::Axes& axes, std::int64_t size, std::int64_t stride, const Shape& shape) {
  if (axes.rank == ReducePlan::kMaxRank) {
    throw UserError(fmt::format("kept and reduced axes of {} alternate too often", shape.text()));
  }
  axes.dims[axes.rank] = size;
  axes.strides[axes.rank] = stride;
  ++axes.rank;
  axes.count *= size;
}

// Enough tasks for many threads, but small partial results and no tiny blocks. A function of the shape alone.
std::int64_t count_blocks(const ReducePlan& p) {
  constexpr std::int64_t kSmallest = 8192;  // elements a block
  std::int64_t wanted = 0;
  if (p.keeps_innermost) {
    const std::int64_t width = p.kept.dims[p.kept.rank - 1];
    const std::int64_t strips = (p.outputs() / std::max<std::int64_t>(width, 1)) * ((width + 1023) / 1024);
    wanted = 16 / std::max<std::int64_t>(strips, 1);
  } else {
    wanted = 64 / std::max<std::int64_t>(p.outputs(), 1);
  }
  return std::clamp<std::int64_t>(p.outputs() * p.terms() / kSmallest, 1,
                                  std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(p.terms(), 1)));
}

}  // namespace

Reduction::Reduction(const Attrs& attrs, int rank) : keeps_dims(attrs.integer("keepdims", 1) != 0) {
  const Ints axes = attrs.ints("axes", {});
  is_reduced.assign(static_cast<std::size_t>(rank), axes.empty());
  for (const std::int64_t axis : axes) {
    const std::int64_t at = axis < 0 ? axis + rank : axis;
    if (at < 0 || at >= rank) throw UserError(fmt::format("there is no axis {}", axis));
    if (is_reduced[static_cast<std::size_t>(at)]) throw UserError(fmt::format("axis {} is named twice", axis));
    is_reduced[static_cast<std::size_t>(at)] = true;
  }
}

Shape Reduction::result(const Shape& src) const {
  if (keeps_dims) return kept(src);
  Shape out;
  for (int i = 0; i < src.rank(); ++i) {
    if (!is_reduced[static_cast<std::size_t>(i)]) out.push_back(src[i]);
  }
  return out;
}

Shape Reduction::kept(const Shape& src) const {
  Shape out;
  for (int i = 0; i < src.rank(); ++i) out.push_back(is_reduced[static_cast<std::size_t>(i)] ? Dim(1) : src[i]);
  return out;
}

std::vector<bool> broadcast_axes(const Shape& src, const Shape& dst) {
  if (dst.rank() > src.rank()) throw UserError(fmt::format("{} has more axes than {}", dst.text(), src.text()));
  std::vector<bool> is_reduced(static_cast<std::size_t>(src.rank()), true);
  for (int i = 1; i <= dst.rank(); ++i) {
    const bool is_same = dst[-i] == src[-i];
    const bool numbers_differ = dst[-i].is_number() && src[-i].is_number() && !is_same;
    if (numbers_differ && !(dst[-i] == Dim(1))) {
      throw UserError(fmt::format("{} was not broadcast from {}", src.text(), dst.text()));
    }
    is_reduced[static_cast<std::size_t>(src.rank() - i)] = !is_same;
  }
  return is_reduced;
}

ReducePlan reduce_plan(const Shape& shape, const std::vector<bool>& is_reduced) {
  ReducePlan plan;
  std::vector<std::int64_t> strides(static_cast<std::size_t>(shape.rank()), 1);
  for (int i = shape.rank() - 2; i >= 0; --i) {
    strides[static_cast<std::size_t>(i)] = strides[static_cast<std::size_t>(i) + 1] * shape.size(i + 1);
  }
  const ReducePlan::Axes* last = nullptr;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape.size(i) == 1) continue;
    const auto at = static_cast<std::size_t>(i);
    ReducePlan::Axes& axes = is_reduced[at] ? plan.reduced : plan.kept;
    if (last == &axes) {
      axes.dims[axes.rank - 1] *= shape.size(i);
      axes.strides[axes.rank - 1] = strides[at];
      axes.count *= shape.size(i);
    } else {
      push_axis(axes, shape.size(i), strides[at], shape);
    }
    last = &axes;
  }
  if (last == nullptr) push_axis(plan.reduced, 1, 1, shape);
  plan.keeps_innermost = last == &plan.kept;
  plan.blocks = count_blocks(plan);
  return plan;
}

}  // namespace neap::ops
