#pragma once

#include "ops/gather/positions.h"
#include "ops/kernel.h"

namespace neap::ops {

// Output 0 = what the entries of input 1 point to in input 0.
[[gnu::weak]] Prepared pick_positions_cuda(const Positions& positions, std::int64_t element_bytes);
// Output 0, of `elements`, = what of input 1 belongs to each; input 0 are the indices, of these sizes.
[[gnu::weak]] Prepared add_elements_cuda(const Positions& positions, const Ints& entries, std::int64_t elements);

// How an update meets what is there.
enum class Combine : std::uint8_t { kReplace, kAdd, kMultiply, kLargest, kSmallest };
// Output 0 = input 0, f32, of `elements`, with what input 2 has (nothing: zeros) where input 1, of these sizes, points.
[[gnu::weak]] Prepared scatter_elements_cuda(const Positions& positions, const Ints& entries, std::int64_t elements,
                                             Combine how);

}  // namespace neap::ops
