// Binding of open sizes, what cannot be imported, notes and bounds.
#include "onnx/onnx_model.h"

#include "onnx/model_testing.h"

namespace neap::onnx::testing {
namespace {

Maker classifier(const std::string& dims = "batch 4") {
  Maker m;
  m.input("x", dims).weight("w", {4, 3}).node("MatMul", "x w", "logits").output("logits");
  return m;
}

TEST(OnnxModel, BatchIsTheFirstAxis) {
  Maker m = classifier();
  const Graph g = build(m, {.batch = 5, .loss = "cross-entropy"});
  EXPECT_EQ(tensor_of(g, "x").type.shape.text(), "[5,4]");
  EXPECT_EQ(tensor_of(g, "target").type.text(), "i32[5]");
  EXPECT_EQ(OnnxModel(m.shared(), "m.onnx").batch(), 32);
}

TEST(OnnxModel, FixedBatchIsTheDefaultAndTheOnlyOne) {
  Maker m = classifier("6 4");
  EXPECT_EQ(OnnxModel(m.shared(), "m.onnx").batch(), 6);
  EXPECT_EQ(tensor_of(build(m, {.batch = 6, .loss = "mse"}), "x").type.shape.text(), "[6,4]");
  expect_user_error([&] { build(m, {.batch = 2, .loss = "mse"}); }, {"model.onnx", "'x'", "batches of 6"});
}

TEST(OnnxModel, OpenAxesTakeLengthOrImage) {
  Maker text = classifier("batch time 4");
  EXPECT_EQ(tensor_of(build(text, {.batch = 2, .length = 7, .loss = "mse"}), "x").type.shape.text(), "[2,7,4]");
  expect_user_error([&] { build(text, {.batch = 2, .loss = "mse"}); }, {"'x'", "(time)", "--length"});

  Maker image;
  image.input("x", "batch 1 height width").weight("k", {2, 1, 3, 3}).node("Conv", "x k", "y").output("y");
  EXPECT_EQ(tensor_of(build(image, {.batch = 2, .image = 9, .loss = "mse"}), "x").type.shape.text(), "[2,1,9,9]");
  expect_user_error([&] { build(image, {.batch = 2, .length = 9, .loss = "mse"}); }, {"'x'", "--image"});
}

TEST(OnnxModel, SymbolStandsForOneNumber) {
  Maker m = classifier("batch batch 4");
  expect_user_error([&] { build(m, {.batch = 2, .length = 3, .loss = "mse"}); }, {"'batch'", "2", "3"});
}

TEST(OnnxModel, BadInputsNameThemselves) {
  const auto message = [](const std::string& dims, int type = pb::TensorProto::FLOAT) {
    Maker m;
    m.input("pixels", dims, type).node("Relu", "pixels", "y").output("y");
    return user_error([&] { build(m, {.batch = 2, .length = 3, .loss = "mse"}); });
  };
  EXPECT_NE(message("batch -4").find("pixels"), std::string::npos);
  EXPECT_NE(message("").find("pixels"), std::string::npos);
  EXPECT_NE(message("batch 4294967296 4294967296 8").find("pixels"), std::string::npos);
  EXPECT_NE(message("batch 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1").find("pixels"), std::string::npos);
  EXPECT_NE(message("batch 4", pb::TensorProto::STRING).find("STRING"), std::string::npos);
}

TEST(OnnxModel, AllThatIsUnsupportedIsListedAtOnce) {
  Maker m;
  m.input("x", "batch 4").node("Frobnicate", "x", "a").node("Relu", "a", "b").node("Softmax", "x", "s", {{"axis", 9}});
  m.node("Xyzzy", "b", "c").node("Add", "c s", "logits").output("logits");
  const std::string what = user_error([&] { build(m, {.batch = 2, .loss = "mse"}); });
  for (const char* part : {"Frobnicate_a", "Softmax_s", "axis 9", "Xyzzy_c"}) {
    EXPECT_NE(what.find(part), std::string::npos) << part << " is not in: " << what;
  }
  EXPECT_EQ(what.find("Relu_b"), std::string::npos) << "it only follows from another: " << what;
}

TEST(OnnxModel, LongListsEnd) {
  Maker m;
  m.input("x", "batch 4");
  for (int i = 0; i < 100; ++i) m.node("Frobnicate", "x", "y" + std::to_string(i));
  m.output("y0");
  const std::string what = user_error([&] { build(m, {.batch = 2, .loss = "mse"}); });
  EXPECT_NE(what.find("and 80 more"), std::string::npos) << what;
  EXPECT_LT(what.size(), 2000U);
}

TEST(OnnxModel, TextOfTheFileIsQuotedSafely) {
  Maker m;
  m.input("x", "batch 1 4 4").weight("w", {1, 1, 1, 1});
  m.node("Conv", "x w", "y", {{"auto_pad", "a\nb\x1b[31m" + std::string(500, 'c')}}).output("y");
  m.graph().mutable_node(0)->set_name("two\nlines");
  const std::string what = user_error([&] { build(m, {.batch = 2, .loss = "mse"}); });
  EXPECT_NE(what.find("two\\x0alines"), std::string::npos) << what;
  EXPECT_EQ(what.find('\x1b'), std::string::npos);
  EXPECT_LT(what.size(), 1000U);
}

TEST(OnnxModel, TooManyInputsAreRefused) {
  Maker m;
  m.input("x", "batch 4").node("Relu", "x x x", "y").output("y");
  expect_user_error([&] { build(m, {.batch = 2, .loss = "mse"}); }, {"Relu_y", "takes 1"});
}

TEST(OnnxModel, ParseRefusesWhatIsNoModel) {
  const auto parse = [](const pb::ModelProto& m) {
    const std::string bytes = m.SerializeAsString();
    return user_error([&] { parse_model(std::as_bytes(std::span(bytes)), "f.onnx"); });
  };
  Maker good = classifier();
  EXPECT_EQ(parse(good.proto()), "");
  EXPECT_NE(parse({}).find("'f.onnx'"), std::string::npos);
  EXPECT_NE(parse(Maker(12).input("x", "2").node("Relu", "x", "y").output("y").proto()).find("opset 12"),
            std::string::npos);
  EXPECT_NE(parse(Maker(22).input("x", "2").node("Relu", "x", "y").output("y").proto()).find("13 to 21"),
            std::string::npos);
  Maker with_function = classifier();
  with_function.proto().add_functions()->set_name("f");
  EXPECT_NE(parse(with_function.proto()).find("functions"), std::string::npos);
}

TEST(OnnxModel, SaysThatItWasExportedForInference) {
  Maker plain = classifier();
  ASSERT_EQ(OnnxModel(plain.shared(), "m.onnx").notes().size(), 1U);
  Maker training = classifier();
  training.truth("on", true).number("p", 0.5F).node("Dropout", "logits p on", "d");
  EXPECT_TRUE(OnnxModel(training.shared(), "m.onnx").notes().empty());
}

TEST(OnnxModel, DropoutRunsInTrainingOnly) {
  Maker m = classifier();
  m.truth("on", true).number("p", 0.5F).node("Dropout", "logits p on", "d");
  m.graph().mutable_output(0)->set_name("d");
  EXPECT_EQ(count(build(m, {.batch = 2, .loss = "mse"}), "dropout"), 1);
  EXPECT_EQ(count(build(m, {.mode = Mode::kEvaluation, .batch = 2, .loss = "mse"}), "dropout"), 0);
}

TEST(OnnxModel, BoundOfAnInputIsThatOfTheTablesItIndexes) {
  Maker m;
  m.input("ids", "batch 4", pb::TensorProto::INT64).weight("table", {7, 2}).weight("small", {5, 2});
  m.node("Cast", "ids", "same", {{"to", 6}}).node("Gather", "table ids", "a").node("Gather", "small same", "b");
  m.node("Add", "a b", "logits").output("logits");
  m.node("Identity", "ids", "");
  const OnnxModel model(m.shared(), "m.onnx");
  EXPECT_EQ(model.bound("ids"), 5);
  EXPECT_EQ(model.bound("other"), 0);
}

TEST(OnnxModel, SeveralInputsAndTypes) {
  Maker m;
  m.input("ids", "batch 3", pb::TensorProto::INT64).input("mask", "batch 3", pb::TensorProto::BOOL).weight("t", {9, 4});
  m.ints("last", {-1}).number("zero", 0).node("Gather", "t ids", "e").node("Unsqueeze", "mask last", "m");
  m.node("Where", "m e zero", "logits").output("logits");
  const Graph g = build(m, {.batch = 2, .loss = "cross-entropy"});
  EXPECT_EQ(tensor_of(g, "ids").type.text(), "i64[2,3]");
  EXPECT_EQ(tensor_of(g, "mask").type.text(), "bool[2,3]");
}

}  // namespace
}  // namespace neap::onnx::testing
