// Typed indices, so that a node and a tensor, or an offset and a tick, cannot be mixed up.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace neap {

template <class Tag>
struct Id {
  static constexpr std::uint32_t kNone = ~0U;
  std::uint32_t index = kNone;
  constexpr explicit operator bool() const { return index != kNone; }
  auto operator<=>(const Id&) const = default;
};

}  // namespace neap

template <class Tag>
struct std::hash<neap::Id<Tag>> {
  std::size_t operator()(const neap::Id<Tag>& id) const noexcept { return id.index; }
};
