// Which elements a slice takes.
#pragma once

#include "graph/op.h"

namespace neap::ops {

// One axis: elements start, start + step, ... (`size` of them).
struct Range {
  std::int64_t start = 0;
  std::int64_t step = 1;
  std::int64_t size = 0;
};

// One an axis of `shape`, which is static. Attributes: "starts", "ends" and, optionally, "axes" (0, 1, ...) and "steps"
// (1). Negative bounds count from the end; bounds beyond the axis are cut to it, as ONNX has it.
std::vector<Range> ranges_of(const Attrs& attrs, const Shape& shape);

// The slice's shape; an axis of symbolic length that is cut is unknown until it is bound.
Shape sliced(const Attrs& attrs, const Shape& shape);

// The elements lie behind each other in memory.
bool is_contiguous(const std::vector<Range>& ranges, const Ints& sizes);

}  // namespace neap::ops
