// Third stage of planning: offsets for blocks with known lifetimes. Knows nothing of graphs.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace neap {

// Alive from `lower` up to, but not at, `upper`.
struct PackItem {
  std::int64_t lower = 0;
  std::int64_t upper = 0;
  std::int64_t size = 0;
  bool operator==(const PackItem&) const = default;
};

inline constexpr std::int64_t kNoCapacity = std::numeric_limits<std::int64_t>::max();

struct PackProblem {
  std::span<const PackItem> items;
  // Offsets are multiples of `alignment`; of `capacity` only whole multiples are used.
  std::int64_t capacity = kNoCapacity;
  std::int64_t alignment = 1;
};

// How long to look. Steps count elementary work (some nanoseconds each), so that equal problems give equal packings on
// every machine; `is_over`, where given, is asked now and then and makes the result depend on timing.
struct PackLimits {
  std::int64_t steps = 40'000'000;         // to get below the capacity
  std::int64_t improve_steps = 8'000'000;  // to pack lower than need be, towards the lower bound
  std::function<bool()> is_over;
};

struct Packing {
  std::vector<std::int64_t> offsets;  // one an item; the lowest packing found, even when it does not fit
  std::int64_t height = 0;
  std::int64_t lower_bound = 0;  // the most bytes alive at one time: no packing is lower
  bool fits = true;              // height <= capacity
  std::string reason;            // why it does not fit; empty when it does
};

// The most bytes alive at one time: no packing is lower.
std::int64_t max_live(std::span<const PackItem> items);

// Heuristics first; an exact search goes on where they miss the capacity or the lower bound. UserError when an item
// ends before it starts or has a negative size, or when numbers are beyond 2^62.
Packing pack(const PackProblem& problem, const PackLimits& limits = {});

// What a plain allocator would do: each item in turn, by the time at which it begins, at the lowest place that is free
// as long as it lives. The yardstick for pack().
Packing pack_first_fit(const PackProblem& problem);

}  // namespace neap
