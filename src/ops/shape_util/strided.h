// Kernels made of strided copies, and the axes and shapes that the shape ops' attributes speak of.
#pragma once

#include <cstddef>
#include <vector>

#include "ops/kernel.h"
#include "ops/shape_util/strided_simd.h"

namespace neap::ops {

// Row-major strides in elements.
Ints dense_strides(const Ints& sizes);

// A copy over `sizes` with a dense destination and these source strides.
StridedCopy copy_from(const TensorType& type, const Ints& sizes, const Ints& src_strides);

// The same copy with axes of length 1 left out and axes that lie behind each other on both sides joined.
StridedCopy merged(const StridedCopy& copy);

// One copy of a kernel: from this input to that output.
struct CopyPart {
  StridedCopy copy;
  std::size_t input = 0;
  std::size_t output = 0;
};
using CopyParts = std::vector<CopyPart>;

Prepared copy_simd(CopyParts parts);
Prepared copy_ref(CopyParts parts);
[[gnu::weak]] Prepared copy_cuda(CopyParts parts);
// The gradient of a slice: dy put among zeros or, when it `adds`, onto input 1.
[[gnu::weak]] Prepared put_cuda(const StridedCopy& putting, std::int64_t whole_bytes, bool adds);
void copy_plainly(const StridedCopy& copy, const std::byte* src, std::byte* dst);  // the reference

// The kernel of an op that is always a view: used where its output cannot share its input's memory.
Prepared copy_whole(const OpCall& call);
[[gnu::weak]] Prepared copy_whole_cuda(const OpCall& call);

inline double no_flops(const OpCall& /*call*/) { return 0; }

}  // namespace neap::ops
