// The layout that state has in files, and the way between it and the layout here (see Given).
#pragma once

#include <cstddef>
#include <vector>

#include "graph/graph.h"

namespace neap {

// The type that the tensor has in files, and its bytes moved there from the layout here and back. The
// caller sees to the number of bytes.
TensorType outside_type(const Tensor& tensor);
std::vector<std::byte> to_outside(const Tensor& tensor, const std::byte* here);
std::vector<std::byte> from_outside(const Tensor& tensor, const std::byte* outside);

}  // namespace neap
