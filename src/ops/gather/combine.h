// How an update meets what is there.
#pragma once

#include <cstdint>

#include "ops/elementwise/element.h"

namespace neap::ops {

enum class Combine : std::uint8_t { kReplace, kAdd, kMultiply, kLargest, kSmallest };

// `a` is there, `b` comes. Integers wrap around, floats of 16 bits count in doubles.
template <class T>
constexpr T combined(Combine how, T a, T b) {
  using Sum = std::conditional_t<kIsInteger<T>, std::uint64_t, std::conditional_t<sizeof(T) == 2, double, T>>;
  switch (how) {
    case Combine::kAdd: return static_cast<T>(static_cast<Sum>(a) + static_cast<Sum>(b));
    case Combine::kMultiply: return static_cast<T>(static_cast<Sum>(a) * static_cast<Sum>(b));
    case Combine::kLargest: return a < b ? b : a;
    case Combine::kSmallest: return b < a ? b : a;
    default: return b;
  }
}

}  // namespace neap::ops
