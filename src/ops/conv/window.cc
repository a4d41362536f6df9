#include "ops/conv/window.h"

#include <fmt/format.h>

#include "neap/error.h"

namespace neap::ops {
namespace {

// One number an axis (or `per_axis` of them), each at least `least`.
Ints numbers(const Attrs& attrs, const char* name, std::size_t count, std::int64_t fallback, std::int64_t least) {
  Ints values = attrs.ints(name, Ints(count, fallback));
  if (values.size() != count)
    throw UserError(fmt::format("{} needs {} numbers, it has {}", name, count, values.size()));
  for (const std::int64_t v : values) {
    if (v < least || v > (std::int64_t{1} << 30)) throw UserError(fmt::format("{} cannot be {}", name, v));
  }
  return values;
}

}  // namespace

int spatial_axes(const Shape& shape) {
  const int axes = shape.rank() - 2;
  if (axes < 1 || axes > 3) {
    throw UserError(fmt::format("takes [N, W, C], [N, H, W, C] or [N, D, H, W, C], not {} axes", shape.rank()));
  }
  return axes;
}

Window window_of(const Attrs& attrs, const Ints& kernel) {
  const std::size_t axes = kernel.size();
  const Ints strides = numbers(attrs, "strides", axes, 1, 1);
  const Ints dilations = numbers(attrs, "dilations", axes, 1, 1);
  const Ints pads = numbers(attrs, "pads", 2 * axes, 0, -(std::int64_t{1} << 30));
  Window window;
  for (std::size_t i = 0; i < axes; ++i) {
    if (kernel[i] < 1 || kernel[i] > (1 << 20)) throw UserError(fmt::format("kernel cannot be {}", kernel[i]));
    WindowAxis& axis = i + 3 == axes ? window.d : i + 2 == axes ? window.h : window.w;
    axis = {.kernel = kernel[i],
            .stride = strides[i],
            .pad_begin = pads[i],
            .pad_end = pads[axes + i],
            .dilation = dilations[i]};
  }
  return window;
}

Dim window_positions(const Dim& in, const WindowAxis& axis, bool ceil) {
  const std::int64_t grows = axis.pad_begin + axis.pad_end - axis.extent() + 1;
  if (!in.is_number()) return axis.stride == 1 && grows == 0 ? in : Dim::unknown();
  const std::int64_t room = in.number() + grows - 1;
  if (room < 0) {
    throw UserError(fmt::format("a window of {} does not fit into {} with pads {} and {}", axis.extent(), in.text(),
                                axis.pad_begin, axis.pad_end));
  }
  std::int64_t positions = room / axis.stride + 1;
  const bool overhangs = ceil && room % axis.stride != 0;
  if (overhangs && positions * axis.stride < in.number() + axis.pad_begin) ++positions;
  return positions;
}

Plane plane_of(const Shape& shape) {
  if (shape.rank() == 3) return {.w = shape.size(1)};
  if (shape.rank() == 4) return {.h = shape.size(1), .w = shape.size(2)};
  return {.d = shape.size(1), .h = shape.size(2), .w = shape.size(3)};
}

}  // namespace neap::ops
