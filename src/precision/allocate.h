// Levels for all saved tensors together: the fewest bytes whose added variance stays within one total.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "precision/choice.h"

namespace neap::precision {

struct AllocationItem {
  std::int64_t elements = 0;
  Estimates
      variance{};  // by level: relative variance times sensitivity; infinite where the level is out of the question
};

struct Allocation {
  std::vector<Level> levels;  // one for each item
  std::int64_t bytes = 0;
  double variance = 0;
  friend bool operator==(const Allocation&, const Allocation&) = default;
};

// Greedy: every item starts at its most precise level; the step down that saves most bytes for the variance that it
// adds is taken as long as it fits. Steps go along each item's lower convex hull. O(n log n).
Allocation allocate_greedily(std::span<const AllocationItem> items, std::span<const Level> levels, double target);

// Finer levels for as many bytes as there are up to `most_bytes`: the step up that takes most variance for its bytes
// first.
Allocation with_spare_bytes(std::span<const AllocationItem> items, std::span<const Level> levels, Allocation from,
                            std::int64_t most_bytes);

// The optimum, by dynamic programming over (bytes, variance) pairs that no other pair beats in both. For small cases:
// nothing when more than `max_states` pairs would have to be kept.
std::optional<Allocation> allocate_exactly(std::span<const AllocationItem> items, std::span<const Level> levels,
                                           double target, std::size_t max_states = 1U << 20);

}  // namespace neap::precision
