#include "ops/pool/pool.h"

#include <fmt/format.h>

#include <algorithm>

#include "neap/error.h"

namespace neap::ops {
namespace {

// ceil(a / b) for b > 0.
std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }

}  // namespace

PoolCount pool_count(const Attrs& attrs) {
  if (attrs.integer("count_include_pad", 0) == 0) return PoolCount::kInside;
  return attrs.integer("count_overhang", 0) == 0 ? PoolCount::kPadded : PoolCount::kAll;
}

PoolAxisTables::PoolAxisTables(const WindowAxis& axis, std::int64_t size, std::int64_t positions, PoolCount count)
    : size_(size), positions_(positions), axis_(axis), begin_(static_cast<std::size_t>(size) + 1) {
  for (std::int64_t o = 0; o < positions; ++o) {
    const std::int64_t start = o * axis.stride - axis.pad_begin;
    const auto taps_before = [&](std::int64_t end) {
      return std::clamp<std::int64_t>(ceil_div(end - start, axis.dilation), 0, axis.kernel);
    };
    const std::int64_t first = taps_before(0);
    const std::int64_t last = std::max(first, taps_before(size));
    const std::int64_t padded = count == PoolCount::kAll ? axis.kernel : taps_before(size + axis.pad_end);
    start_.push_back(static_cast<std::int32_t>(start));
    first_.push_back(static_cast<std::int32_t>(first));
    last_.push_back(static_cast<std::int32_t>(last));
    count_.push_back(
        static_cast<float>(std::max<std::int64_t>(1, count == PoolCount::kInside ? last - first : padded)));
  }
  for (std::int64_t i = 0; i < size; ++i) {
    begin_[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(tap_.size());
    for (std::int64_t k = 0; k < axis.kernel; ++k) {
      const std::int64_t at = i + axis.pad_begin - k * axis.dilation;
      if (at < 0 || at % axis.stride != 0 || at / axis.stride >= positions) continue;
      position_.push_back(static_cast<std::int32_t>(at / axis.stride));
      tap_.push_back(static_cast<std::int32_t>(k));
    }
  }
  begin_.back() = static_cast<std::int32_t>(tap_.size());
}

PoolAxis PoolAxisTables::view() const {
  return {.size = size_,
          .positions = positions_,
          .kernel = axis_.kernel,
          .start = start_.data(),
          .first = first_.data(),
          .last = last_.data(),
          .dilation = axis_.dilation,
          .count = count_.data(),
          .begin = begin_.data(),
          .position = position_.data(),
          .tap = tap_.data()};
}

Pool pool_of(const Shape& x, const Shape& y, const Attrs& attrs) {
  const Window window = window_of(attrs, attrs.ints("kernel"));
  const Plane in = plane_of(x);
  const Plane out = plane_of(y);
  const PoolCount count = pool_count(attrs);
  return {.n = x.size(0),
          .c = x.size(-1),
          .h = PoolAxisTables(window.h, in.h, out.h, count),
          .w = PoolAxisTables(window.w, in.w, out.w, count)};
}

Shape pooled(const Shape& x, const Attrs& attrs) {
  const int axes = spatial_axes(x);
  const Ints kernel = attrs.ints("kernel");
  if (static_cast<int>(kernel.size()) != axes) {
    throw UserError(fmt::format("kernel needs {} numbers, it has {}", axes, kernel.size()));
  }
  const Window window = window_of(attrs, kernel);
  const bool ceil = attrs.integer("ceil_mode", 0) != 0;
  Shape y{x[0]};
  for (int i = 0; i < axes; ++i) {
    const WindowAxis& axis = window.axis(i, axes);
    if (axis.pad_begin < 0 || axis.pad_end < 0 || axis.pad_begin >= axis.extent() || axis.pad_end >= axis.extent()) {
      throw UserError(fmt::format("pads must be smaller than the window of {}", axis.extent()));
    }
    y.push_back(window_positions(x[1 + i], axis, ceil));
  }
  y.push_back(x[-1]);
  return y;
}

Shape pooled_globally(const Shape& x) {
  Shape y{x[0]};
  for (int i = 0; i < spatial_axes(x); ++i) y.push_back(1);
  y.push_back(x[-1]);
  return y;
}

GlobalShape global_shape(const Shape& x) {
  const Plane plane = plane_of(x);
  return {.n = x.size(0), .rows = plane.d * plane.h * plane.w, .c = x.size(-1)};
}

DType tap_type(const Attrs& attrs) {
  std::int64_t taps = 1;
  for (const std::int64_t k : attrs.ints("kernel")) taps *= k;
  return taps <= 256 ? DType::kU8 : DType::kI32;
}

Attrs with_shape(const Attrs& attrs, const Shape& shape) {
  Attrs out = attrs;
  out.set("shape", shape);
  return out;
}

}  // namespace neap::ops
