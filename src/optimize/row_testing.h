// What tests of passes that make groups of rows share.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "autodiff/autodiff.h"
#include "optimize/optimize_testing.h"

namespace neap {

// The whole step of a small loss over y: gradients of all parameters are outputs.
inline Graph with_gradients(Builder& g, Value y) {
  std::vector<Value> parameters;
  for (const TensorId id : g.graph().with_role(Role::kParameter)) parameters.push_back(id);
  const Value loss = g("reduce_mean", {g("square", {y})}, {{"keepdims", std::int64_t{0}}});
  g.output("loss", loss);
  for (const auto& [id, gradient] : differentiate(g, loss, parameters)) g.output("d." + g.name_of(id), gradient);
  return g.take();
}

// All outputs on random values.
inline void expect_same_bits(const Graph& before, const Graph& after) {
  std::map<std::string, HostTensor> leaves;
  std::uint64_t key = 1;
  for (const Tensor& t : before.tensors) {
    if (t.producer || t.data) continue;
    leaves[t.name] = random_values(t.type, key++);
    if (t.type.dtype == DType::kU64) leaves[t.name].as<std::uint64_t>()[0] = 5;
    if (t.name.ends_with("var")) {
      for (std::int64_t i = 0; i < t.type.elements(); ++i) leaves[t.name].floats()[i] += 2;  // variances are positive
    }
  }
  const auto was = evaluate(before, leaves);
  const auto is = evaluate(after, leaves);
  for (const auto& [label, id] : before.outputs) {
    EXPECT_EQ(is[after.output(label)->index].data, was[id.index].data) << label;
  }
}

}  // namespace neap
