// Windows that slide over the spatial axes of a channels-last tensor: what convolution and pooling share.
#pragma once

#include <cstdint>

#include "neap/attrs.h"

namespace neap::ops {

// Output position o looks at input positions o * stride - pad_begin + k * dilation, k = 0 .. kernel - 1.
struct WindowAxis {
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t pad_begin = 0;
  std::int64_t pad_end = 0;
  std::int64_t dilation = 1;

  std::int64_t extent() const { return dilation * (kernel - 1) + 1; }
};

// An op over one spatial axis has a depth and a height of 1 as well.
struct Window {
  WindowAxis d;
  WindowAxis h;
  WindowAxis w;

  // Axis i of `axes` spatial ones.
  const WindowAxis& axis(int i, int axes) const { return i + 3 == axes ? d : i + 2 == axes ? h : w; }
};

// Number of spatial axes of [N, spatial..., C]; UserError unless it is 1, 2 or 3.
int spatial_axes(const Shape& shape);

// From the attributes strides, pads (all begins, then all ends) and dilations; UserError says what is wrong with them.
Window window_of(const Attrs& attrs, const Ints& kernel);

// Output positions along an axis of `in`; unknown when that is symbolic and changes. With `ceil` a window may hang over
// the end, but must start before it. UserError when no window fits.
Dim window_positions(const Dim& in, const WindowAxis& axis, bool ceil = false);

// Depth, height and width of [N, (D,) (H,) W, C].
struct Plane {
  std::int64_t d = 1;
  std::int64_t h = 1;
  std::int64_t w = 1;
};
Plane plane_of(const Shape& shape);

}  // namespace neap::ops
