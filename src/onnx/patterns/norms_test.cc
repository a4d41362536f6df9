#include "onnx/model_testing.h"
#include "onnx/patterns/patterns.h"

namespace neap::onnx::testing {
namespace {

struct Norm {
  bool centred = true;         // layer norm; else rms norm
  std::string square = "Pow";  // or Mul
  std::string divide = "Div";  // or Reciprocal, or One for 1 / root
  Ints axes = {-1};
  Ints variance_axes = {};  // where they differ
  bool keeps = true;
  std::string epsilon = "eps";
  std::string scale = "gamma";
};

Maker norm(const Norm& n) {
  Maker m;
  m.input("x", "batch time 4").input("raw", "batch time 1").number("eps", 1e-5F).number("two", 2).number("one", 1);
  m.weight("gamma", {4}).weight("beta", {4}).weight("column", {3, 1}).floats("epsilons", {3, 1}, {1, 2, 3});
  if (n.epsilon == "given" || n.scale == "given") m.node("Abs", "raw", "given");
  std::string d = "x";
  if (n.centred) {
    m.node("ReduceMean", "x", "mean", {{"axes", n.axes}}).node("Sub", "x mean", "d");
    d = "d";
  }
  if (n.square == "Pow") m.node("Pow", d + " two", "sq");
  if (n.square == "Mul") m.node("Mul", d + " " + d, "sq");
  m.node("ReduceMean", "sq", "v",
         {{"axes", n.variance_axes.empty() ? n.axes : n.variance_axes}, {"keepdims", n.keeps ? 1 : 0}});
  m.node("Add", "v " + n.epsilon, "ve").node("Sqrt", "ve", "root");
  if (n.divide == "Div") m.node("Div", d + " root", "n");
  if (n.divide == "Reciprocal") m.node("Reciprocal", "root", "r").node("Mul", d + " r", "n");
  if (n.divide == "One") m.node("Div", "one root", "r").node("Mul", "r " + d, "n");
  m.node("Mul", "n " + n.scale, "scaled");
  if (n.centred) m.node("Add", "scaled beta", "y").output("y");
  if (!n.centred) m.output("scaled");
  return m;
}

void expect_found(const Norm& n, const std::string& after) {
  Maker m = norm(n);
  const Graph plain = import_plain(m);
  const Graph found = find_patterns(plain);
  verify(found);
  EXPECT_EQ(ops(found), after);
  expect_same_results(plain, found);
}

TEST(OnnxPatterns, LayerNormInAllItsSpellings) {
  for (const char* square : {"Pow", "Mul"}) {
    for (const char* divide : {"Div", "Reciprocal", "One"}) {
      expect_found({.square = square, .divide = divide}, "layer_norm");
    }
  }
  expect_found({.axes = {2}}, "layer_norm");
}

TEST(OnnxPatterns, RmsNormInAllItsSpellings) {
  for (const char* square : {"Pow", "Mul"}) {
    for (const char* divide : {"Div", "Reciprocal", "One"}) {
      expect_found({.centred = false, .square = square, .divide = divide}, "rms_norm");
    }
  }
}

TEST(OnnxPatterns, NormCarriesItsNumbers) {
  Maker m = norm({});
  const Graph g = find_patterns(import_plain(m));
  ASSERT_EQ(g.nodes.size(), 1U);
  EXPECT_NEAR(g.nodes[0].attrs.real("epsilon"), 1e-5, 1e-10);
  EXPECT_EQ(g.nodes[0].inputs.size(), 3U);  // x, scale, bias
}

TEST(OnnxPatterns, ScaleOfAnotherShapeStaysBehindTheNorm) {
  expect_found({.centred = false, .scale = "column"}, "rms_norm mul");
  expect_found({.centred = false, .scale = "given"}, "abs rms_norm mul");  // no weight
}

TEST(OnnxPatterns, NearNormsAreKept) {
  const auto kept = [](const Norm& n) {
    Maker m = norm(n);
    const Graph plain = import_plain(m);
    const Graph found = find_patterns(plain);
    EXPECT_EQ(ops(found), ops(plain));
    expect_same_results(plain, found);
  };
  kept({.axes = {1}});            // not the last axes
  kept({.axes = {0, 2}});         // not one behind the other
  kept({.epsilon = "given"});     // not known
  kept({.epsilon = "epsilons"});  // not one number
}

// The variance over other axes than the mean: an rms norm of what the mean was taken off.
TEST(OnnxPatterns, OtherAxesForTheVariance) {
  expect_found({.axes = {1, 2}, .variance_axes = {2}}, "reduce_mean sub rms_norm add");
}

TEST(OnnxPatterns, OwnOpsOfTheFile) {
  Maker m;
  m.input("x", "batch time 4").weight("gamma", {4}).weight("beta", {4});
  m.node("LayerNormalization", "x gamma beta", "y", {{"epsilon", 1e-3}}).output("y");
  EXPECT_EQ(ops(find_patterns(import_plain(m))), "layer_norm");
}

Maker batch_norm(bool sums, const std::string& outputs) {
  Maker m;
  m.input("x", "batch 2 3 3")
      .input("r", "batch 2 3 3")
      .weight("s", {2})
      .weight("b", {2})
      .weight("m", {2})
      .floats("v", {2}, {1, 2});
  m.node("BatchNormalization", "x s b m v", "n");
  if (sums)
    m.node("MaxPool", "r", "p", {{"kernel_shape", Ints{1, 1}}}).node("Add", "p n", "sum").node("Relu", "sum", "y");
  if (!sums) m.node("Relu", "n", "y");
  m.output(outputs);
  return m;
}

TEST(OnnxPatterns, BatchNormTakesReluAndResidual) {
  for (const bool sums : {false, true}) {
    Maker m = batch_norm(sums, "y");
    const Graph plain = import_plain(m);
    const Graph found = find_patterns(plain);
    EXPECT_EQ(count(found, "relu") + count(found, "add"), 0) << ops(found);
    EXPECT_EQ(count(found, "batch_norm_apply"), 1);
    expect_same_results(plain, found);
  }
}

TEST(OnnxPatterns, BatchNormThatOthersReadKeepsItsRelu) {
  Maker m = batch_norm(false, "y n");
  const Graph plain = import_plain(m);
  const Graph found = find_patterns(plain);
  EXPECT_EQ(count(found, "relu"), 1);
  expect_same_results(plain, found);
}

TEST(OnnxPatterns, ResidualOfAnotherShapeStays) {
  Maker m;
  m.input("x", "batch 2 3 3")
      .weight("r", {2, 1, 1})
      .weight("s", {2})
      .weight("b", {2})
      .weight("m", {2})
      .floats("v", {2}, {1, 2});
  m.node("BatchNormalization", "x s b m v", "n").node("Add", "n r", "sum").node("Relu", "sum", "y").output("y");
  const Graph plain = import_plain(m);
  const Graph found = find_patterns(plain);
  EXPECT_EQ(count(found, "add"), 1);
  expect_same_results(plain, found);
}

TEST(OnnxPatterns, BothBranchesOfASumAreBatchNorms) {
  Maker m;
  m.input("x", "batch 2 3 3").weight("s", {2}).weight("b", {2}).weight("m", {2}).floats("v", {2}, {1, 2});
  m.node("BatchNormalization", "x s b m v", "n1")
      .node("Neg", "x", "minus")
      .node("BatchNormalization", "minus s b m v", "n2");
  m.node("Add", "n1 n2", "sum").node("Relu", "sum", "y").output("y");
  const Graph plain = import_plain(m);
  const Graph found = find_patterns(plain);
  verify(found);
  EXPECT_EQ(count(found, "relu") + count(found, "add"), 0);
  expect_same_results(plain, found);
}

}  // namespace
}  // namespace neap::onnx::testing
