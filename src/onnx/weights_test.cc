// What the importer makes of initializers: parameters, buffers or constants; shared or tied.
#include "onnx/weights.h"

#include <limits>

#include "onnx/model_testing.h"

namespace neap::onnx::testing {
namespace {

Role role(const Graph& g, const std::string& name) { return tensor_of(g, name).role; }
bool has(const Graph& g, const std::string& name) { return g.find(name).has_value(); }

TEST(OnnxWeights, BiasOfOneElementIsTrained) {
  Maker m;
  m.input("x", "batch 4").weight("w", {1, 4}).floats("b", {1}, {0.5F});
  m.node("Gemm", "x w b", "y", {{"transB", 1}}).output("y");
  const Graph g = import_plain(m);
  EXPECT_EQ(role(g, "b"), Role::kParameter);
  EXPECT_TRUE(tensor_of(g, "b").trainable);
  EXPECT_EQ(ops(g), "linear");
}

TEST(OnnxWeights, NumbersInArithmeticAreNotTrained) {
  Maker m;
  m.input("x", "batch 4").number("half", 0.5F).floats("two", {1}, {2});
  m.node("Mul", "x half", "a").node("Add", "a two", "y").output("y");
  EXPECT_TRUE(import_plain(m).with_role(Role::kParameter).empty());
}

TEST(OnnxWeights, ScaleOfSeveralElementsIsTrained) {
  Maker m;
  m.input("x", "batch 4").weight("gamma", {4}).node("Mul", "x gamma", "y").output("y");
  EXPECT_EQ(role(import_plain(m), "gamma"), Role::kParameter);
}

TEST(OnnxWeights, MasksAreConstants) {
  const float never = std::numeric_limits<float>::lowest();
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float value : {never, -infinity, std::numeric_limits<float>::quiet_NaN()}) {
    Maker m;
    m.input("x", "batch 2 2").floats("mask", {2, 2}, {0, value, 0, 0}).node("Add", "x mask", "y").output("y");
    EXPECT_TRUE(import_plain(m).with_role(Role::kParameter).empty()) << value;
  }
}

TEST(OnnxWeights, BoundsOfClipAndTheLikeAreConstants) {
  Maker m;
  m.input("x", "batch 4").number("low", 0).number("high", 6).floats("power", {4}, {1, 2, 3, 2});
  m.node("Clip", "x low high", "c").node("Pow", "c power", "p").node("Greater", "p power", "big");
  m.node("Where", "big p x", "y").output("y");
  const Graph g = import_plain(m);
  EXPECT_TRUE(g.with_role(Role::kParameter).empty());
  EXPECT_EQ(g.nodes[0].attrs.real("max"), 6.0);
}

TEST(OnnxWeights, StatisticsOfBatchNormAreBuffers) {
  Maker m;
  m.input("x", "batch 2 4 4").weight("scale", {2}).weight("bias", {2}).weight("mean", {2}).floats("var", {2}, {1, 2});
  m.node("BatchNormalization", "x scale bias mean var", "y").output("y");
  const Graph g = import_plain(m);
  EXPECT_EQ(role(g, "mean"), Role::kBuffer);
  EXPECT_EQ(role(g, "var"), Role::kBuffer);
  EXPECT_EQ(role(g, "scale"), Role::kParameter);
}

TEST(OnnxWeights, BatchNormTrainsAsTheFileOrTheFlagSays) {
  const auto with = [](std::int64_t mode, std::optional<bool> frozen, Mode purpose) {
    Maker m;
    m.input("x", "batch 2 4 4").weight("scale", {2}).weight("bias", {2}).weight("mean", {2}).floats("var", {2}, {1, 2});
    m.node("BatchNormalization", "x scale bias mean var", mode != 0 ? "y m v" : "y", {{"training_mode", mode}})
        .output("y");
    return count(import_plain(m, {.frozen_batch_norm = frozen}, purpose), "running_stats");
  };
  EXPECT_EQ(with(1, std::nullopt, Mode::kTraining), 1);
  EXPECT_EQ(with(0, std::nullopt, Mode::kTraining), 0);
  EXPECT_EQ(with(0, false, Mode::kTraining), 1);
  EXPECT_EQ(with(1, true, Mode::kTraining), 0);
  EXPECT_EQ(with(1, std::nullopt, Mode::kEvaluation), 0);
}

// Two biases that the exporter wrote once because both start at zero.
Maker shared_by_identity(const std::vector<float>& values) {
  Maker m;
  m.input("x", "batch 3").weight("w1", {3, 3}).weight("w2", {3, 3}).floats("b1", {3}, values);
  m.node("Identity", "b1", "b2").node("Gemm", "x w1 b1", "h").node("Gemm", "h w2 b2", "y").output("y");
  return m;
}

TEST(OnnxWeights, EqualValuesSharedByAccidentAreTrainedApart) {
  Maker m = shared_by_identity({0, 0, 0});
  const Graph g = import_plain(m);
  EXPECT_TRUE(has(g, "b1"));
  EXPECT_TRUE(has(g, "b2"));
  EXPECT_EQ(g.with_role(Role::kParameter).size(), 4U);
}

TEST(OnnxWeights, TiedWeightsStayOne) {
  Maker m = shared_by_identity({0, 1, 2});
  const Graph g = import_plain(m);
  EXPECT_TRUE(has(g, "b1"));
  EXPECT_FALSE(has(g, "b2"));
  EXPECT_EQ(g.with_role(Role::kParameter).size(), 3U);
}

TEST(OnnxWeights, TableTiedToTheHeadIsOneParameter) {
  Maker m;
  m.input("ids", "batch time", pb::TensorProto::INT64).weight("table", {5, 4});
  m.node("Gather", "table ids", "e").node("Transpose", "table", "head", {{"perm", Ints{1, 0}}});
  m.node("MatMul", "e head", "y").output("y");
  const Graph g = import_plain(m);
  EXPECT_EQ(ops(g), "embedding linear");
  EXPECT_EQ(g.with_role(Role::kParameter).size(), 1U);
  EXPECT_EQ(g.nodes[1].attrs.integer("transposed"), 0);
}

TEST(OnnxWeights, HalfAndDoubleAreTrainedAsFloat) {
  Maker m;
  pb::TensorProto half;
  half.set_name("w");
  half.set_data_type(pb::TensorProto::FLOAT16);
  for (const std::int64_t d : {2, 2}) half.add_dims(d);
  for (const int bits : {0x3C00, 0x4000, 0xBC00, 0x3800}) half.add_int32_data(bits);
  m.input("x", "batch 2", pb::TensorProto::FLOAT16).add(half).node("MatMul", "x w", "y").output("y");
  const Graph g = import_plain(m);
  const Tensor& w = tensor_of(g, "w");
  EXPECT_EQ(w.type.text(), "f32[2,2]");
  const auto* values = reinterpret_cast<const float*>(w.data->data());
  EXPECT_EQ((std::vector<float>{values, values + 4}), (std::vector<float>{1, 2, -1, 0.5F}));
}

}  // namespace
}  // namespace neap::onnx::testing
