#include "ops/shape_util/axes.h"

#include <fmt/format.h>

#include <algorithm>

#include "neap/error.h"

namespace neap::ops {

int axis_of(std::int64_t axis, int rank) {
  const std::int64_t at = axis < 0 ? axis + rank : axis;
  if (at < 0 || at >= rank) throw UserError(fmt::format("there is no axis {} among {}", axis, rank));
  return static_cast<int>(at);
}

Ints axes_of(const Ints& axes, int rank) {
  Ints out;
  for (const std::int64_t axis : axes) {
    out.push_back(axis_of(axis, rank));
    if (std::count(out.begin(), out.end(), out.back()) > 1) {
      throw UserError(fmt::format("axis {} is named twice", axis));
    }
  }
  return out;
}

const TensorType& movable(const TensorType& type) {
  if (type.dtype == DType::kBits) throw UserError("elements of one bit cannot be moved; cast them to bool");
  return type;
}

bool is_unknown(const Dim& dim) { return dim.text().find('?') != std::string::npos; }

Shape known_shape(const Shape& shape, std::string_view what) {
  if (std::any_of(shape.begin(), shape.end(), is_unknown)) {
    throw UserError(fmt::format("{} needs a known shape, not {}: bind its symbols first", what, shape.text()));
  }
  return shape;
}

Shape shape_to_restore(const Shape& shape) {
  Shape out = shape;
  const auto unknown = std::find_if(shape.begin(), shape.end(), is_unknown);
  if (unknown != shape.end()) out[static_cast<int>(unknown - shape.begin())] = -1;
  return known_shape(out, "reshaping");
}

}  // namespace neap::ops
