// What is known beforehand vanishes from the graph; what would be too much to know stays in it.
#include "onnx/model_testing.h"

namespace neap::onnx::testing {
namespace {

TEST(OnnxFold, ShapeArithmeticVanishes) {
  Maker m;
  m.input("x", "batch time 8")
      .integer("zero", 0)
      .integer("one", 1)
      .ints("axis", {0})
      .ints("heads", {2})
      .ints("rest", {-1});
  m.node("Shape", "x", "s").node("Gather", "s zero", "n", {{"axis", 0}}).node("Gather", "s one", "t", {{"axis", 0}});
  m.node("Mul", "n t", "nt")
      .node("Div", "nt t", "n2")
      .node("Unsqueeze", "n2 axis", "u")
      .node("Unsqueeze", "t axis", "v");
  m.node("Concat", "u v heads rest", "to", {{"axis", 0}}).node("Reshape", "x to", "y").output("y");
  const Graph g = import_plain(m);
  EXPECT_EQ(ops(g), "reshape");
  EXPECT_EQ(g.at(*g.output("y")).type.shape.text(), "[2,3,2,4]");
}

TEST(OnnxFold, MaskOfTheFileIsOneConstant) {
  Maker m;
  m.input("x", "batch time time").ints("to", {3, 3}).number("never", -1e30F).number("nothing", 0);
  m.node("ConstantOfShape", "to", "ones", {{"value", tensor("", {1}, {1})}})
      .node("Trilu", "ones", "low", {{"upper", 0}});
  m.node("Equal", "low nothing", "hidden")
      .node("Where", "hidden never nothing", "mask")
      .node("Add", "x mask", "y")
      .output("y");
  m.proto()
      .mutable_graph()
      ->mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(1)
      ->set_dim_param("time");
  const Graph g = import_plain(m);
  EXPECT_EQ(ops(g), "add");
}

TEST(OnnxFold, RangeAndSizeFollowTheBoundSymbols) {
  Maker m;
  m.input("x", "batch time").integer("zero", 0).integer("one", 1);
  m.node("Shape", "x", "t", {{"start", 1}}).node("Squeeze", "t", "n").node("Range", "zero n one", "positions");
  m.node("Cast", "positions", "f", {{"to", 1}}).node("Add", "x f", "y").output("y");
  const Graph g = import_plain(m);
  EXPECT_EQ(ops(g), "add");
  const HostTensor x({DType::kF32, {2, 3}});
  const HostTensor y = results(g, {{"x", x}})[0];
  EXPECT_EQ((std::vector<float>{y.floats(), y.floats() + 6}), (std::vector<float>{0, 1, 2, 0, 1, 2}));
}

TEST(OnnxFold, LargeConstantsAreLeftToTheGraph) {
  Maker m;
  m.input("x", "batch 4").ints("to", {1 << 14, 1 << 13});  // 512 MiB
  m.node("ConstantOfShape", "to", "big")
      .node("ReduceMean", "big", "mean", {{"keepdims", 0}})
      .node("Add", "x mean", "y")
      .output("y");
  EXPECT_EQ(ops(import_plain(m)), "fill reduce_mean add");
}

// Many constants of which each alone is small enough.
TEST(OnnxFold, ConstantsTogetherAreBounded) {
  Maker m;
  m.input("x", "batch 4").ints("to", {1 << 12, 1 << 12});  // 64 MiB
  for (int i = 0; i < 16; ++i) {
    const std::string n = std::to_string(i);
    m.node("ConstantOfShape", "to", "c" + n)
        .node("Neg", "c" + n, "n" + n)
        .node("ReduceMax", "n" + n, "m" + n, {{"keepdims", 0}});
    m.node("Add", i == 0 ? "x m0" : "y" + std::to_string(i - 1) + " m" + n, "y" + n);
  }
  m.output("y15");
  const Graph g = import_plain(m);
  EXPECT_LE(count(g, "neg"), 16);
  EXPECT_GE(count(g, "neg"), 12);  // four of 64 MiB fit
}

TEST(OnnxFold, TensorsThatCannotBeNameTheirNode) {
  const auto message = [](const std::string& op, const Ints& to) {
    Maker m;
    m.input("x", "batch 4").ints("to", to).weight("w", {4});
    m.node(op, op == "ConstantOfShape" ? "to" : "w to", "big").node("ReduceMean", "big", "mean", {{"keepdims", 0}});
    m.node("Add", "x mean", "y").output("y");
    return user_error([&] { import_plain(m); });
  };
  EXPECT_NE(message("ConstantOfShape", {1LL << 36}).find("ConstantOfShape_big"), std::string::npos);
  EXPECT_NE(message("Expand", {1LL << 20, 1LL << 20, 4}).find("Expand_big"), std::string::npos);
  EXPECT_NE(message("Tile", {1LL << 40}).find("Tile_big"), std::string::npos);
  EXPECT_NE(message("Pad", {1LL << 40, 0}).find("Pad_big"), std::string::npos);
  EXPECT_NE(message("Pad", {INT64_MAX, INT64_MAX}).find("Pad_big"), std::string::npos);
  EXPECT_NE(message("Expand", {INT64_MAX, 2, 0}).find("Expand_big"), std::string::npos);
}

TEST(OnnxFold, IndexOutOfRangeIsAnError) {
  Maker m;
  m.input("x", "batch 4")
      .integer("far", 9)
      .node("Shape", "x", "s")
      .node("Gather", "s far", "n")
      .node("Add", "x n", "y")
      .output("y");
  expect_user_error([&] { import_plain(m); }, {"Gather_n"});
}

}  // namespace
}  // namespace neap::onnx::testing
