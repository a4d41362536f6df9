// Random problems for tests.
#pragma once

#include <algorithm>
#include <string>

#include "core/random.h"
#include "remat/problem.h"

namespace neap::remat {

struct RandomShape {
  std::uint32_t ops = 20;
  std::uint32_t inputs = 2;
  std::uint32_t most_outputs = 2;
  std::uint32_t reach = 8;  // how far back an op reads
  double fixed = 0.1;       // share of ops that must not run again
  double far = 0.2;         // share of reads from anywhere
};

inline Problem random_problem(RandomStream& random, const RandomShape& shape) {
  const auto below = [&](std::uint64_t n) { return static_cast<std::uint32_t>(random.below(n)); };
  const auto chance = [&](double p) { return below(1000) < p * 1000; };
  Problem p;
  for (std::uint32_t i = 0; i < shape.inputs; ++i) {
    p.tensors.push_back({.name = "in" + std::to_string(i), .bytes = below(20), .op = kNoOp});
  }
  for (OpIndex i = 0; i < shape.ops; ++i) {
    Op op{.name = "op" + std::to_string(i),
          .ms = below(4) == 0 ? 0 : 1.0 + below(20),
          .inputs = {},
          .outputs = {},
          .workspace = below(3) == 0 ? below(30) : 0,
          .recompute = !chance(shape.fixed)};
    const auto made = static_cast<std::uint32_t>(p.tensors.size());
    for (std::uint32_t k = 1 + below(3); k > 0; --k) {
      const TensorIndex t = chance(shape.far) ? below(made) : made - 1 - below(std::min(made, shape.reach));
      if (std::find(op.inputs.begin(), op.inputs.end(), t) == op.inputs.end()) op.inputs.push_back(t);
    }
    for (std::uint32_t k = below(8) == 0 ? 0 : 1 + below(shape.most_outputs); k > 0; --k) {
      op.outputs.push_back(static_cast<TensorIndex>(p.tensors.size()));
      p.tensors.push_back(
          {.name = "t" + std::to_string(p.tensors.size()), .bytes = below(6) == 0 ? 0 : 1 + below(100), .op = i});
    }
    p.ops.push_back(std::move(op));
  }
  for (TensorIndex t = 0; t < p.tensors.size(); ++t) {
    if (chance(0.05)) p.keep.push_back(t);
  }
  return p;
}

}  // namespace neap::remat
