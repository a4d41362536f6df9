#include "optimize/once.h"

#include <gtest/gtest.h>

#include "neap/error.h"
#include "optimize/optimize_testing.h"

namespace neap {
namespace {

const Attrs kMarked = {{std::string(kOnce), std::int64_t{1}}};

TEST(Once, SplitsWhatIsMadeOfWeights) {
  Builder g;
  const Value x = g.input("x", DType::kF32, {3});
  const Value w = g.parameter("w", {3}, Init::normal(1));
  const Value both = g.parameter("both", {3}, Init::normal(1));
  const Value made = g("exp", {g("add", {w, both}, kMarked, "sum")}, kMarked, "made");
  g.output("y", g("add", {g("mul", {x, made}), both}));
  const Graph graph = g.take();
  const Halves halves = split_once(graph);
  EXPECT_EQ(halves.once.nodes.size(), 2U);
  EXPECT_EQ(halves.rest.nodes.size(), 2U);
  EXPECT_FALSE(halves.rest.find("w"));
  EXPECT_TRUE(halves.rest.find("both"));
  ASSERT_EQ(halves.once.outputs.size(), 1U);
  const std::string& name = halves.once.outputs[0].first;
  ASSERT_TRUE(halves.rest.find(name));
  EXPECT_EQ(halves.rest.at(*halves.rest.find(name)).role, Role::kBuffer);
  std::map<std::string, HostTensor> values;
  for (const char* leaf : {"x", "w", "both"}) values[leaf] = random_values({DType::kF32, {3}}, 5);
  const auto all = evaluate(graph, values);
  values[name] = evaluate(halves.once, values)[halves.once.outputs[0].second.index];
  EXPECT_EQ(evaluate(halves.rest, values)[halves.rest.output("y")->index].data, all[graph.output("y")->index].data);
}

TEST(Once, LeavesGraphsWithoutMarksAsTheyAre) {
  Builder g;
  g.output("y", g("exp", {g.parameter("w", {3}, Init::normal(1))}));
  const Graph graph = g.take();
  const Halves halves = split_once(graph);
  EXPECT_TRUE(halves.once.nodes.empty());
  EXPECT_EQ(print(halves.rest), print(graph));
}

TEST(Once, MayNotReadData) {
  Builder g;
  g.output("y", g("exp", {g.input("x", DType::kF32, {3})}, kMarked));
  EXPECT_THROW(split_once(g.take()), InternalError);
}

}  // namespace
}  // namespace neap
