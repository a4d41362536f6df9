// Where ONNX's indices point, the same on every device.
#pragma once

#include "graph/op.h"

namespace neap::ops {

struct UnpoolPlaces {
  std::int64_t entries, elements, channels;  // elements: of the tensor that is pointed into
  std::int64_t pixels = 1;

  UnpoolPlaces(const Shape& x, const Shape& y) : entries(x.count()), elements(y.count()), channels(y.size(-1)) {
    for (int i = 1; i + 1 < y.rank(); ++i) pixels *= y.size(i);
  }
  constexpr bool fits(std::int64_t index) const { return index >= 0 && index < elements; }
  // From [N, C, pixels] to [N, pixels, C].
  constexpr std::int64_t at(std::int64_t index) const {
    const std::int64_t c = index / pixels % channels;
    return (index / (pixels * channels) * pixels + index % pixels) * channels + c;
  }
};

}  // namespace neap::ops
