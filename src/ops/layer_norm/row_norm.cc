#include "ops/layer_norm/row_norm.h"

#include <fmt/format.h>

#include <algorithm>

#include "neap/error.h"

namespace neap::ops {

int norm_axis(const Shape& x, const Attrs& attrs) {
  const std::int64_t axis = attrs.integer("axis", -1);
  if (axis < -x.rank() || axis >= x.rank()) {
    throw UserError(fmt::format("axis {} is not one of {}'s", axis, x.text()));
  }
  return static_cast<int>(axis < 0 ? axis + x.rank() : axis);
}

Shape leading_axes(const Shape& x, int axis) { return Shape({x.begin(), x.begin() + axis}); }
Shape trailing(const Shape& x, int axis) { return Shape({x.begin() + axis, x.end()}); }

double norm_epsilon(const Attrs& attrs) {
  const double epsilon = attrs.real("epsilon", 1e-5);
  if (!(epsilon >= 0)) throw UserError(fmt::format("epsilon cannot be {}", epsilon));
  return epsilon;
}

RowNorm row_norm(const Shape& x, const Attrs& attrs) {
  constexpr std::int64_t kLeastRows = 32;
  constexpr std::int64_t kMostParts = 64;
  const int axis = norm_axis(x, attrs);
  const std::int64_t rows = leading_axes(x, axis).count();
  const std::int64_t part_rows = std::max(kLeastRows, (rows + kMostParts - 1) / kMostParts);
  return {.rows = rows,
          .width = trailing(x, axis).count(),
          .part_rows = part_rows,
          .parts = (rows + part_rows - 1) / part_rows,
          .epsilon = static_cast<float>(norm_epsilon(attrs))};
}

std::int64_t row_norm_partial_bytes(const RowNorm& s) {
  return s.parts * 2 * s.width * static_cast<std::int64_t>(sizeof(float));
}

bool takes_types(const OpCall& call, int narrow_in, int narrow_out) {
  for (int i = 0; i < static_cast<int>(call.inputs.size()); ++i) {
    const auto& t = call.inputs[static_cast<std::size_t>(i)];
    if (t && t->dtype == DType::kBF16 && i != narrow_in) return false;
  }
  for (int i = 0; i < static_cast<int>(call.outputs.size()); ++i) {
    if (call.outputs[static_cast<std::size_t>(i)].dtype == DType::kBF16 && i != narrow_out) return false;
  }
  return true;
}

void expect_shape(const OpCall& call, std::size_t i, const Shape& shape, std::string_view what) {
  if (!call.has(i)) return;
  const TensorType want{DType::kF32, shape};
  if (!(call.in(i) == want)) {
    throw UserError(fmt::format("{} must be {}, it is {}", what, want.text(), call.in(i).text()));
  }
}

}  // namespace neap::ops
