// Where the entries of an index tensor point in the tensor that they index: element by element (axis), or slice by
// slice (the last axis of the indices holds the leading coordinates of a slice).
#pragma once

#include <string>

#include "ops/gather/indices.h"

namespace neap::ops {

struct Positions {
  std::string op;
  bool wide = false;       // indices are i64
  std::int64_t count = 0;  // entries
  std::int64_t slice = 1;  // elements of each
  Ints sizes, strides;     // of the data

  // Element by element: the entry's coordinates, but along `axis` the index.
  int axis = -1;
  Ints entry_strides;  // of the indices

  // Slice by slice: `depth` indices an entry, after `batch` coordinates shared with the data.
  std::int64_t depth = 0;
  int batch_axes = 0;
  std::int64_t entries_a_batch = 1;
  std::int64_t batch_stride = 0;

  // First element of entry t; UserError when an index is out of range.
  std::int64_t at(const void* indices, std::int64_t t) const;
  // UserError when any is.
  void check(const void* indices) const;

 private:
  std::int64_t step(const void* indices, std::int64_t place, std::size_t along) const;
};

// UserError when the shapes do not fit (dims may be symbols).
void check_element_shapes(const Shape& data, const Shape& indices, int axis);
void check_slice_shapes(const Shape& data, const Shape& indices, std::int64_t batch_dims);
// One slice an entry.
Shape slices_shape(const Shape& data, const Shape& indices, std::int64_t batch_dims);

Positions element_positions(std::string_view op, const Shape& data, const TensorType& indices, int axis);
Positions slice_positions(std::string_view op, const Shape& data, const TensorType& indices, std::int64_t batch_dims);

}  // namespace neap::ops
