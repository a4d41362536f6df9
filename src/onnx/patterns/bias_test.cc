#include "onnx/model_testing.h"
#include "onnx/patterns/patterns.h"

namespace neap::onnx::testing {
namespace {

Maker product() {
  Maker m;
  m.input("x", "batch time 4").weight("w", {4, 5}).weight("b", {5}).weight("column", {3, 1}).weight("one", {5, 5});
  m.node("MatMul", "x w", "p");
  return m;
}

TEST(OnnxPatterns, LinearTakesItsBias) {
  for (const char* order : {"p b", "b p"}) {
    Maker m = product();
    m.node("Add", order, "y").output("y");
    const Graph plain = import_plain(m);
    const Graph found = find_patterns(plain);
    EXPECT_EQ(ops(plain), "linear add");
    EXPECT_EQ(ops(found), "linear");
    EXPECT_EQ(found.nodes[0].inputs.size(), 3U);
    expect_same_results(plain, found);
  }
}

TEST(OnnxPatterns, OtherSumsBehindALinearAreKept) {
  const auto kept = [](const std::string& sum, const std::string& outputs) {
    Maker m = product();
    m.node("Add", sum, "y").output(outputs);
    const Graph plain = import_plain(m);
    const Graph found = find_patterns(plain);
    EXPECT_EQ(ops(found), ops(plain));
    expect_same_results(plain, found);
  };
  kept("p column", "y");  // one number a row
  kept("p p", "y");
  kept("p b", "y p");  // the product is a result
}

TEST(OnnxPatterns, SecondBiasStays) {
  Maker m = product();
  m.weight("b2", {5}).node("Add", "p b", "s").node("Add", "s b2", "y").output("y");
  const Graph plain = import_plain(m);
  const Graph found = find_patterns(plain);
  EXPECT_EQ(ops(found), "linear add");
  expect_same_results(plain, found);
}

TEST(OnnxPatterns, UnusedNodesAndWeightsGo) {
  Maker m = product();
  m.node("Exp", "p", "unused").node("Neg", "p", "y").output("y");
  const Graph found = find_patterns(import_plain(m));
  EXPECT_EQ(ops(found), "linear neg");
  EXPECT_TRUE(found.find("x").has_value());
}

}  // namespace
}  // namespace neap::onnx::testing
