// Third stage of planning: offsets for blocks with known lifetimes. Knows nothing of graphs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace neap {

// Alive from `lower` up to, but not at, `upper`.
struct PackItem {
  std::uint32_t lower = 0;
  std::uint32_t upper = 0;
  std::int64_t size = 0;
};

struct Packing {
  std::vector<std::int64_t> offsets;  // one an item
  std::int64_t height = 0;
};

// The most bytes alive at one time: no packing is lower.
std::int64_t max_live(std::span<const PackItem> items);

// Places items one by one at the lowest offset that is free for their whole life, in several orders; the best wins.
Packing pack(std::span<const PackItem> items);

}  // namespace neap
