#include "ops/slice/range.h"

#include <fmt/format.h>

#include <algorithm>

#include "neap/error.h"
#include "ops/shape_util/axes.h"

namespace neap::ops {
namespace {

struct Cut {
  int axis;
  std::int64_t start, end, step;
};

std::vector<Cut> cuts_of(const Attrs& attrs, int rank) {
  const Ints starts = attrs.ints("starts");
  const Ints ends = attrs.ints("ends");
  Ints all;
  for (std::size_t i = 0; i < starts.size(); ++i) all.push_back(static_cast<std::int64_t>(i));
  const Ints axes = axes_of(attrs.ints("axes", all), rank);
  const Ints steps = attrs.ints("steps", Ints(starts.size(), 1));
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size()) {
    throw UserError("starts, ends, axes and steps differ in length");
  }
  std::vector<Cut> cuts;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    if (steps[i] == 0) throw UserError("a step of 0 goes nowhere");
    cuts.push_back({static_cast<int>(axes[i]), starts[i], ends[i], steps[i]});
  }
  return cuts;
}

// A step as long as the axis takes one element as well as a longer one does.
std::int64_t within(std::int64_t step, std::int64_t length) { return std::clamp(step, -length - 1, length + 1); }

Range range(const Cut& cut, std::int64_t length) {
  const std::int64_t lowest = cut.step > 0 ? 0 : -1;
  const std::int64_t highest = cut.step > 0 ? length : length - 1;
  const auto bound = [&](std::int64_t at) { return std::clamp(at < 0 ? at + length : at, lowest, highest); };
  const std::int64_t start = bound(cut.start);
  const std::int64_t end = bound(cut.end);
  const std::int64_t step = within(cut.step, length);
  const std::int64_t distance = step > 0 ? end - start : start - end;
  const std::int64_t size = distance <= 0 ? 0 : (distance - 1) / std::abs(step) + 1;
  return {.start = size == 0 ? 0 : start, .step = step, .size = size};
}

bool takes_all(const Cut& cut) { return cut.start == 0 && cut.step == 1 && cut.end == INT64_MAX; }

}  // namespace

std::vector<Range> ranges_of(const Attrs& attrs, const Shape& shape) {
  std::vector<Range> ranges;
  for (int a = 0; a < shape.rank(); ++a) ranges.push_back({.size = shape.size(a)});
  for (const Cut& cut : cuts_of(attrs, shape.rank())) {
    ranges[static_cast<std::size_t>(cut.axis)] = range(cut, shape.size(cut.axis));
  }
  return ranges;
}

Shape sliced(const Attrs& attrs, const Shape& shape) {
  Shape out = shape;
  for (const Cut& cut : cuts_of(attrs, shape.rank())) {
    if (shape[cut.axis].is_number()) {
      out[cut.axis] = range(cut, shape.size(cut.axis)).size;
    } else if (!takes_all(cut)) {
      out[cut.axis] = Dim::unknown();
    }
  }
  return out;
}

bool is_contiguous(const std::vector<Range>& ranges, const Ints& sizes) {
  std::size_t cut = 0;
  while (cut < ranges.size() && ranges[cut].size == 1) ++cut;
  for (std::size_t a = cut; a < ranges.size(); ++a) {
    if (ranges[a].step != 1 || (a > cut && ranges[a].size != sizes[a])) return false;
  }
  return true;
}

}  // namespace neap::ops
