// What a step would have changed the state with, small enough to keep: two forms of a step can be compared by it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "neap/dtype.h"

namespace neap {

// Of a call that changes state, or of a result of the step.
struct Rehearsed {
  std::string name;
  std::uint64_t hash = 0;  // of all bytes
  // Only where asked for. Sums of its floats with random signs: by the differences of such sums two tensors are
  // compared without a copy of either (Achlioptas, 2003).
  std::array<double, 16> sums{};
  double square = 0;  // of the norm of its floats

  void add(const std::byte* at, std::size_t bytes, DType type, bool has_sums);
  friend bool operator==(const Rehearsed&, const Rehearsed&) = default;
};

// About ||a - b|| / ||a||; 0 where the bits are the same. Not a number where the values are none.
double relative_error(const Rehearsed& a, const Rehearsed& b);

}  // namespace neap
