#include "ops/gather/positions.h"

#include "ops/matmul/checks.h"
#include "ops/shape_util/strided.h"

namespace neap::ops {

std::int64_t Positions::step(const void* indices, std::int64_t place, std::size_t along) const {
  const std::int64_t raw =
      wide ? static_cast<const std::int64_t*>(indices)[place] : static_cast<const std::int32_t*>(indices)[place];
  const std::int64_t size = sizes[along];
  if (raw < -size || raw >= size) {
    throw UserError(fmt::format("{}: index {} at place {} is outside of [{}, {})", op, raw, place, -size, size));
  }
  return (raw < 0 ? raw + size : raw) * strides[along];
}

std::int64_t Positions::at(const void* indices, std::int64_t t) const {
  std::int64_t sum = 0;
  if (axis < 0) {
    for (std::int64_t k = 0; k < depth; ++k) {
      sum += step(indices, t * depth + k, static_cast<std::size_t>(batch_axes + k));
    }
    return sum + t / entries_a_batch * batch_stride;
  }
  std::int64_t left = t;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::int64_t coordinate = left / entry_strides[i];
    left %= entry_strides[i];
    sum += static_cast<int>(i) == axis ? step(indices, t, i) : coordinate * strides[i];
  }
  return sum;
}

void Positions::check(const void* indices) const {
  for (std::int64_t t = 0; t < count; ++t) at(indices, t);
}

void check_element_shapes(const Shape& data, const Shape& indices, int axis) {
  need(data.rank() == indices.rank(), "data and indices must have the same number of axes");
  for (int i = 0; i < data.rank(); ++i) {
    const bool numbers = data[i].is_number() && indices[i].is_number();
    if (i != axis && numbers && indices[i].number() > data[i].number()) {
      throw UserError(fmt::format("indices {} reach beyond data {}", indices.text(), data.text()));
    }
  }
}

void check_slice_shapes(const Shape& data, const Shape& indices, std::int64_t batch_dims) {
  need(indices.rank() >= 1 && indices[-1].is_number(), "the indices need a last axis of known length");
  const std::int64_t depth = indices[-1].number();
  need(batch_dims >= 0 && batch_dims < indices.rank(), "batch_dims must be less than the axes of the indices");
  need(batch_dims + depth <= data.rank(), "the indices have more coordinates than data has axes");
  for (int i = 0; i < batch_dims; ++i) need(may_equal(data[i], indices[i]), "data and indices differ in a batch axis");
}

Shape slices_shape(const Shape& data, const Shape& indices, std::int64_t batch_dims) {
  Shape out = leading(indices, 1);
  for (auto i = static_cast<int>(batch_dims + indices[-1].number()); i < data.rank(); ++i) out.push_back(data[i]);
  return out;
}

Positions element_positions(std::string_view op, const Shape& data, const TensorType& indices, int axis) {
  Positions p{.op = std::string(op), .wide = indices.dtype == DType::kI64, .count = indices.elements()};
  p.sizes = data.sizes();
  p.strides = dense_strides(p.sizes);
  p.axis = axis;
  p.entry_strides = dense_strides(indices.shape.sizes());
  return p;
}

Positions slice_positions(std::string_view op, const Shape& data, const TensorType& indices, std::int64_t batch_dims) {
  Positions p{.op = std::string(op), .wide = indices.dtype == DType::kI64};
  p.sizes = data.sizes();
  p.strides = dense_strides(p.sizes);
  p.depth = indices.shape.size(-1);
  p.batch_axes = static_cast<int>(batch_dims);
  p.count = 1;
  for (int i = 0; i + 1 < indices.shape.rank(); ++i) {
    p.count *= indices.shape.size(i);
    if (i >= batch_dims) p.entries_a_batch *= indices.shape.size(i);
  }
  for (auto i = static_cast<std::size_t>(batch_dims + p.depth); i < p.sizes.size(); ++i) p.slice *= p.sizes[i];
  if (batch_dims > 0) p.batch_stride = p.strides[static_cast<std::size_t>(batch_dims - 1)];
  return p;
}

}  // namespace neap::ops
