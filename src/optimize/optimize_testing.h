// What tests of optimizations share.
#pragma once

#include <algorithm>
#include <string_view>

#include "core/random.h"
#include "graph/op.h"
#include "ops/evaluate.h"

namespace neap {

// Floats in [-1, 1), integers in [0, bound).
inline HostTensor random_values(const TensorType& type, std::uint64_t key, std::uint64_t bound = 3) {
  HostTensor out(type);
  RandomStream random(key);
  for (std::int64_t i = 0; i < type.elements(); ++i) {
    if (type.dtype == DType::kF32) out.floats()[i] = static_cast<float>(2 * random.uniform() - 1);
    if (type.dtype == DType::kI32) out.as<std::int32_t>()[i] = static_cast<std::int32_t>(random.below(bound));
  }
  return out;
}

inline std::ptrdiff_t count_of(const Graph& graph, std::string_view op) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) { return node.op->name == op; });
}

}  // namespace neap
