// How a GPU takes a node's products of f32: in f32, or where the node's attribute "math" says "tf32", with operands
// rounded to TF32 (10 bits of mantissa) by its tensor cores and sums in f32. mixed/tf32.cc lists the ops that know it.
#pragma once

#include <string>

#include "neap/attrs.h"

namespace neap::ops {

inline constexpr const char* kMath = "math";

inline bool is_tf32(const Attrs& attrs) { return attrs.text(kMath, "f32") == "tf32"; }
inline void set_tf32(Attrs& attrs) { attrs.set(kMath, std::string("tf32")); }

// For a node that takes another one's place.
inline void carry_math(const Attrs& from, Attrs& to) {
  if (is_tf32(from)) set_tf32(to);
}

}  // namespace neap::ops
