// Which weights stay when a tensor is pruned by magnitude.
#pragma once

#include <cstdint>

#include "neap/attrs.h"

namespace neap::ops {

// Either the `keep` largest of every `of` weights that stand side by side along the input axis, or all but a share of
// the whole tensor. Of equal magnitudes the first stay. A weight that is no number counts as the largest.
struct PruneRule {
  std::int64_t keep = 0, of = 0;  // of > 0
  double share = 0;               // of == 0

  static PruneRule from(const Attrs& attrs);  // keep, of; or share. UserError when they make no sense
};

// A weight as [outer, in, inner].
struct PruneShape {
  std::int64_t outer = 1, in = 1, inner = 1;
  std::int64_t elements() const { return outer * in * inner; }
  static PruneShape of(const Shape& weight, std::int64_t axis);  // of its inputs; negative ones count from the end
};

// Weights that a share leaves.
std::int64_t kept_by_share(double share, std::int64_t elements);

// One bit a weight, 8 a byte, the first in the lowest: 1 where it stays. `bits` has (elements + 7) / 8 bytes.
void find_mask(const PruneRule& rule, const PruneShape& shape, const float* weight, std::uint8_t* bits);
// Zeroes what does not stay.
void apply_mask(const std::uint8_t* bits, std::int64_t elements, float* weight);

}  // namespace neap::ops
