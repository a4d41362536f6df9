// What the losses over classes share: rows of numbers, one target a row.
#pragma once

#include "ops/cross_entropy/cross_entropy_simd.h"
#include "ops/kernel.h"

namespace neap::ops {

// Inputs `scores` (f32 [...,classes]) and `targets` (i32 or i64 [...]) of the call.
ClassRows class_rows(const OpCall& call, std::size_t scores, std::size_t targets);
// UserError unless they fit each other.
void check_classes(const OpCall& call, std::size_t scores, std::size_t targets);
// The same for a gradient's output.
void check_targets(const Shape& scores, const OpCall& call, std::size_t targets);
ClassRows class_rows(const Shape& scores, const OpCall& call, std::size_t targets);

// "mean" (true) or "sum"; UserError otherwise.
bool is_mean(const Attrs& attrs);

// A target that does not count: it is the attribute "ignore_index", or there is no such class.
inline bool is_counted(const ClassRows& c, std::int64_t target) {
  return target != c.ignore && target >= 0 && target < c.classes;
}
inline std::int64_t target_at(const ClassRows& c, const void* targets, std::int64_t row) {
  return c.wide ? static_cast<const std::int64_t*>(targets)[row] : static_cast<const std::int32_t*>(targets)[row];
}
std::int64_t counted(const ClassRows& c, const void* targets);

// 1, or 1 / rows that count (0 when there is none).
double loss_scale(const ClassRows& c, const void* targets, bool mean);

}  // namespace neap::ops
