#pragma once

#include "ops/kernel.h"
#include "ops/layer_norm/row_norm_simd.h"

namespace neap::ops {

// The first normalised axis, from the attribute `axis` (-1); UserError when x does not have it.
int norm_axis(const Shape& x, const Attrs& attrs);
// Axes before and from `axis` on.
Shape leading_axes(const Shape& x, int axis);
Shape trailing(const Shape& x, int axis);
double norm_epsilon(const Attrs& attrs);

// The partition depends on the shape alone.
RowNorm row_norm(const Shape& x, const Attrs& attrs);
std::int64_t row_norm_partial_bytes(const RowNorm& s);

// Types that the kernels take as they are: f32 all, but for `narrow_in` or `narrow_out`, which may be bf16 (-1: none).
bool takes_types(const OpCall& call, int narrow_in, int narrow_out);

// UserError unless input i, when given, is f32 of this shape.
void expect_shape(const OpCall& call, std::size_t i, const Shape& shape, std::string_view what);

}  // namespace neap::ops
