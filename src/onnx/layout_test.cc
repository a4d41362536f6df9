// Images stay channels-last from one convolution to the next: transposes only at the ends.
#include "onnx/model_testing.h"

namespace neap::onnx::testing {
namespace {

const Attributes kSame = {{"pads", Ints{1, 1, 1, 1}}};

Maker two_convs() {
  Maker m;
  m.input("x", "batch 3 8 8").weight("w1", {4, 3, 3, 3}).weight("w2", {4, 4, 3, 3}).weight("b", {4});
  m.node("Conv", "x w1 b", "c1", kSame).node("Relu", "c1", "r").node("Conv", "r w2", "c2", kSame);
  return m;
}

TEST(OnnxLayout, ChainOfConvolutionsMovesOnlyInputAndResult) {
  Maker m = two_convs();
  m.node("Add", "c2 r", "sum").node("Concat", "sum c1", "all", {{"axis", 1}}).output("all");
  const Graph g = import_plain(m);
  EXPECT_EQ(ops(g), "transpose conv relu conv add concat transpose");
  EXPECT_EQ(g.nodes[5].attrs.integer("axis"), 3);  // channels are last here
  EXPECT_EQ(g.at(*g.output("all")).type.shape.text(), "[2,8,8,8]");
}

TEST(OnnxLayout, ImageOfOneChannelIsMovedByAView) {
  Maker m;
  m.input("x", "batch 1 8 8").weight("w", {4, 1, 3, 3}).node("Conv", "x w", "y").output("y");
  EXPECT_EQ(ops(import_plain(m)), "reshape conv transpose");
}

TEST(OnnxLayout, WeightsAreKeptInTheLayoutOfTheirReader) {
  Maker m = two_convs();
  m.output("c2");
  const Graph g = import_plain(m);
  const Tensor& w = tensor_of(g, "w1");
  EXPECT_EQ(w.type.shape.text(), "[4,3,3,3]");
  EXPECT_EQ(w.outside_axes, (std::vector<int>{0, 3, 1, 2}));
  EXPECT_EQ(tensor_of(g, "b").outside_axes, std::vector<int>{});
}

TEST(OnnxLayout, WholeNetworkHasOneTranspose) {
  Maker m = two_convs();
  m.weight("scale", {4}).weight("bias", {4}).weight("mean", {4}).floats("var", {4}, {1, 2, 3, 4}).weight("fc", {5, 4});
  m.node("BatchNormalization", "c2 scale bias mean var", "n").node("MaxPool", "n", "p", {{"kernel_shape", Ints{2, 2}}});
  m.node("GlobalAveragePool", "p", "g").node("Flatten", "g", "f").node("Gemm", "f fc", "y", {{"transB", 1}});
  m.output("y");
  const Graph g = import_plain(m);
  EXPECT_EQ(count(g, "transpose"), 1) << ops(g);
}

TEST(OnnxLayout, TransposesOfTheFileCancel) {
  Maker m;
  m.input("x", "batch 8 8 3").weight("w", {4, 3, 3, 3});
  m.node("Transpose", "x", "t", {{"perm", Ints{0, 3, 1, 2}}}).node("Conv", "t w", "c");
  m.node("Transpose", "c", "y", {{"perm", Ints{0, 2, 3, 1}}}).output("y");
  EXPECT_EQ(ops(import_plain(m)), "conv");
}

TEST(OnnxLayout, AxesOfOtherOpsAreThoseOfTheFile) {
  // Everything that takes an axis, behind a convolution and behind a plain tensor that holds the same values.
  const auto with = [](bool behind_conv) {
    Maker m;
    m.input("x", "batch 3 4 5").floats("one", {3, 1, 1, 1}, {1, 1, 1}).ints("starts", {1}).ints("ends", {3});
    m.ints("axes", {2})
        .ints("cut", {1, 2})
        .ints("pads", {0, 1, 0, 0, 0, 0, 2, 0})
        .weight("row", {5})
        .weight("plane", {3, 1, 5});
    m.node(behind_conv ? "Conv" : "Identity", behind_conv ? "x one" : "x", "c",
           behind_conv ? Attributes{{"group", 3}} : Attributes{});
    m.node("Softmax", "c", "soft", {{"axis", 1}}).node("Slice", "c starts ends axes", "part");
    m.node("Split", "c cut", "left right", {{"axis", 1}}).node("ReduceMean", "c", "mean", {{"axes", Ints{1, 3}}});
    m.node("ReduceMax", "c", "max", {{"axes", Ints{2}}, {"keepdims", 0}}).node("Pad", "c pads", "padded");
    m.node("Add", "c row", "sum").node("Mul", "plane c", "product").node("ArgMax", "c", "arg", {{"axis", 1}});
    m.node("Flatten", "c", "flat", {{"axis", 2}}).node("Transpose", "c", "turned", {{"perm", Ints{3, 1, 0, 2}}});
    m.output("soft part left right mean max padded sum product arg flat turned");
    return import_plain(m);
  };
  expect_same_results(with(false), with(true), 1e-6);
}

TEST(OnnxLayout, WeightReadInTwoLayoutsIsOneParameter) {
  Maker m;
  m.input("x", "batch 3 4 4")
      .weight("w", {2, 3, 1, 1})
      .node("Conv", "x w", "c")
      .node("ReduceSum", "w", "s", {{"keepdims", 0}});
  m.node("Add", "c s", "y").output("y");
  const Graph g = import_plain(m);
  EXPECT_EQ(g.with_role(Role::kParameter).size(), 1U);
}

}  // namespace
}  // namespace neap::onnx::testing
