// What shape rules ask of their inputs.
#pragma once

#include <fmt/format.h>

#include "graph/op.h"
#include "neap/error.h"

namespace neap::ops {

// Symbols may turn out to be equal; the rule runs again when they are bound.
inline bool may_equal(const Dim& a, const Dim& b) { return a == b || !a.is_number() || !b.is_number(); }

inline void need(bool holds, const char* what) {
  if (!holds) throw UserError(what);
}

inline void need_f32(const OpCall& call, std::size_t i) {
  if (call.in(i).dtype != DType::kF32) throw UserError(fmt::format("input {} must be f32", i));
}

inline void need_index(const OpCall& call, std::size_t i) {
  const DType type = call.in(i).dtype;
  if (type != DType::kI32 && type != DType::kI64) throw UserError(fmt::format("input {} must be i32 or i64", i));
}

// `a` from its first axis on, without its last `drop` axes.
inline Shape leading(const Shape& a, int drop) {
  Shape out;
  for (int i = 0; i < a.rank() - drop; ++i) out.push_back(a[i]);
  return out;
}

inline void need_same_shape(const Shape& a, const Shape& b, const char* what) {
  bool same = a.rank() == b.rank();
  for (int i = 0; same && i < a.rank(); ++i) same = may_equal(a[i], b[i]);
  if (!same) throw UserError(fmt::format("{}: {} and {}", what, a.text(), b.text()));
}

}  // namespace neap::ops
