// Elements and slices picked by positions, and put there, on CUDA.
#pragma once

#include "ops/gather/combine.h"
#include "ops/gather/positions.h"
#include "ops/kernel.h"

namespace neap::ops {

// Output 0 = what the entries of input 1 point to in input 0.
[[gnu::weak]] Prepared pick_positions_cuda(const Positions& positions, std::int64_t element_bytes);
// Output 0, of `elements`, = what of input 1 belongs to each; input 0 are the indices, of these sizes.
[[gnu::weak]] Prepared add_elements_cuda(const Positions& positions, const Ints& entries, std::int64_t elements);

// Output 0, of `elements`, = what of the slices of input 1 belongs to each; input 0 are the indices.
[[gnu::weak]] Prepared add_slices_cuda(const Positions& positions, std::int64_t elements);
// Output 0 = input 0, f32, of `elements`, with what input 2 has (nothing: zeros) where input 1, of these sizes, points.
[[gnu::weak]] Prepared scatter_elements_cuda(const Positions& positions, const Ints& entries, std::int64_t elements,
                                             Combine how);
// The same by slices, for data of (nearly) any type.
[[gnu::weak]] Prepared scatter_slices_cuda(const Positions& positions, const TensorType& data, Combine how);

}  // namespace neap::ops
