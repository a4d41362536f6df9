// Axes and shapes in attributes.
#pragma once

#include <string_view>

#include "graph/op.h"

namespace neap::ops {

// Negative axes count from the end; UserError when there is no such axis.
int axis_of(std::int64_t axis, int rank);
// The same for a list; UserError when an axis is named twice.
Ints axes_of(const Ints& axes, int rank);

// The type itself; UserError when its elements are smaller than a byte, so that they cannot be moved one by one.
const TensorType& movable(const TensorType& type);

// Nothing can be told of it until the symbols are bound.
bool is_unknown(const Dim& dim);

// `shape` as an attribute of a gradient's node. UserError says that `what` needs it when an axis is unknown.
Shape known_shape(const Shape& shape, std::string_view what);

// "shape" of a reshape back to `shape`: one unknown axis is left to be told by the number of elements.
Shape shape_to_restore(const Shape& shape);

}  // namespace neap::ops
