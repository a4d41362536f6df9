// Ops that go along one axis of a tensor, or copy it in another form, each simple enough for a few lines on CUDA.
#pragma once

#include "ops/kernel.h"

namespace neap::ops {

// A tensor as outer x length x inner.
struct LineShape {
  std::int64_t outer = 1, length = 1, inner = 1;
};

// All of f32 but for the last, which copies elements of `bytes`.
[[gnu::weak]] Prepared cumsum_cuda(const LineShape& line, bool exclusive, bool reverse);
[[gnu::weak]] Prepared hardmax_cuda(const LineShape& line);
// `line.length` is the depth; indices are i32 or (wide) i64.
[[gnu::weak]] Prepared one_hot_cuda(const LineShape& line, bool wide, float on, float off);
[[gnu::weak]] Prepared trilu_cuda(std::int64_t elements, std::int64_t rows, std::int64_t columns, std::int64_t k,
                                  bool upper, std::int64_t bytes);

}  // namespace neap::ops
