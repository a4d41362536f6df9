// First values of what a step finds in memory when training begins.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/graph.h"

namespace neap {

// The first value of a parameter, buffer, constant or optimizer state; depends on seed and name alone.
std::vector<std::byte> initial_value(const Tensor& tensor, std::uint64_t seed);

}  // namespace neap
