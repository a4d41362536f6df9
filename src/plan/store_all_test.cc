#include <gtest/gtest.h>

#include "autodiff/autodiff.h"
#include "mixed/mixed.h"
#include "neap/builder.h"
#include "plan/plan.h"

namespace neap {
namespace {

// A layer, what `op` makes of it, and another layer.
Graph step_of(const char* op) {
  Builder g;
  const Value x = g.input("x", DType::kF32, {256, 64});
  const std::vector<TensorId> weights = {g.parameter("w0", {64, 64}, Init::normal(1)),
                                         g.parameter("w1", {64, 64}, Init::normal(1))};
  Value y = g("linear", {x, weights[0]}, {}, "first");
  y = g("add", {y, x}, {}, "stream");
  y = g(op, {y}, {}, "between");
  const Value loss = g("reduce_mean", {g("linear", {y, weights[1]}, {}, "second")}, {}, "loss");
  g.output("loss", loss);
  differentiate(g, loss, weights);
  return g.take();
}

Residency residency_of(const Graph& graph, const char* name) {
  return store_all(graph).residency.at(graph.find(name)->index);
}

TEST(StoreAll, MakesAgainWhatOneCheapPassMakes) {
  EXPECT_EQ(residency_of(step_of("layer_norm"), "between"), Residency::kRecompute);
  EXPECT_EQ(residency_of(step_of("gelu"), "between"), Residency::kRecompute);
}

// bf16 from a stream of f32: twice as many bytes are read as come out.
TEST(StoreAll, KeepsNarrowTensorsOfPassesThatReadMuchMore) {
  const Graph graph = with_bf16(step_of("layer_norm"));
  ASSERT_EQ(graph.at(*graph.find("between")).type.dtype, DType::kBF16);
  EXPECT_EQ(residency_of(graph, "between"), Residency::kKeep);
  const Node& norm = graph.at(graph.at(*graph.find("between")).producer);
  const Decisions decisions = store_all(graph);
  for (const TensorId id : norm.outputs) EXPECT_EQ(decisions.residency[id.index], Residency::kKeep);
}

}  // namespace
}  // namespace neap
