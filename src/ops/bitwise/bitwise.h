// What the bitwise ops do with two integers, the same on every device.
#pragma once

#include <cstdint>
#include <type_traits>

#include "ops/elementwise/broadcast_plan.h"
#include "ops/kernel.h"

namespace neap::ops {

enum class BitFn : std::uint8_t { kAnd, kOr, kXor, kNot, kLeft, kRight };

template <class T>
constexpr T bitwise_value(BitFn fn, T a, T b) {
  const auto x = static_cast<std::int64_t>(a);
  const auto y = static_cast<std::int64_t>(b);
  const bool is_beyond = static_cast<std::uint64_t>(y) >= 8 * sizeof(T);
  switch (fn) {
    case BitFn::kAnd: return static_cast<T>(x & y);
    case BitFn::kOr: return static_cast<T>(x | y);
    case BitFn::kXor: return static_cast<T>(x ^ y);
    case BitFn::kNot: return static_cast<T>(~x);
    case BitFn::kLeft: return is_beyond ? T{0} : static_cast<T>(static_cast<std::uint64_t>(x) << y);
    default: return is_beyond ? static_cast<T>(std::is_signed_v<T> && x < 0 ? -1 : 0) : static_cast<T>(a >> y);
  }
}

// Output 0 from inputs 0 and `second`, integers of this type.
[[gnu::weak]] Prepared bitwise_cuda(BitFn fn, DType type, const BroadcastPlan& plan, std::size_t second);

}  // namespace neap::ops
