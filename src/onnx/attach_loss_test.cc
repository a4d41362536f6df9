#include "onnx/attach_loss.h"

#include <cmath>

#include "onnx/model_testing.h"

namespace neap::onnx::testing {
namespace {

// The result itself: logits = x.
Maker passing(const std::string& dims) {
  Maker m;
  m.input("x", dims).number("one", 1).node("Mul", "x one", "logits").output("logits");
  return m;
}

HostTensor floats(const Shape& shape, const std::vector<float>& values) {
  HostTensor out({DType::kF32, shape});
  std::copy(values.begin(), values.end(), out.floats());
  return out;
}

HostTensor classes(const Shape& shape, const std::vector<std::int32_t>& values) {
  HostTensor out({DType::kI32, shape});
  std::copy(values.begin(), values.end(), out.as<std::int32_t>());
  return out;
}

double loss(Maker& m, const std::string& name, const HostTensor& x, const HostTensor& target) {
  const Graph g = build(m, {.batch = 2, .length = 2, .loss = name});
  EXPECT_EQ(g.outputs.at(0).first, "loss");
  const HostTensor y = results(g, {{"x", x}, {"target", target}})[0];
  EXPECT_EQ(y.type.text(), "f32[]");
  return static_cast<double>(*y.floats());
}

const std::vector<float> kX = {0.5F, -1, 2, 0, 1, -0.25F};

TEST(OnnxLoss, OfClasses) {
  Maker m = passing("batch 3");
  const HostTensor x = floats({2, 3}, kX);
  const HostTensor t = classes({2}, {2, 0});
  const auto log_sum = [](double a, double b, double c) { return std::log(std::exp(a) + std::exp(b) + std::exp(c)); };
  const double want = (log_sum(0.5, -1, 2) - 2 + log_sum(0, 1, -0.25) - 0) / 2;
  EXPECT_NEAR(loss(m, "cross-entropy", x, t), want, 1e-5);
  EXPECT_NEAR(loss(m, "nll", x, t), -(2.0 + 0.0) / 2, 1e-5);
}

TEST(OnnxLoss, OfClassesOnTheSecondAxis) {
  Maker m = passing("batch 2 3");
  Maker turned = passing("batch 3 2");
  HostTensor x({DType::kF32, {2, 2, 3}});
  HostTensor y({DType::kF32, {2, 3, 2}});
  for (int n = 0; n < 2; ++n) {
    for (int c = 0; c < 2; ++c) {
      for (int i = 0; i < 3; ++i) {
        const float v = std::sin(static_cast<float>(n * 6 + c * 3 + i));
        x.floats()[n * 6 + c * 3 + i] = v;
        y.floats()[n * 6 + i * 2 + c] = v;
      }
    }
  }
  const HostTensor t = classes({2, 3}, {0, 1, 1, 1, 0, 0});
  EXPECT_NEAR(loss(m, "cross-entropy-channels", x, t), loss(turned, "cross-entropy", y, t), 1e-6);
}

TEST(OnnxLoss, OfNumbers) {
  Maker m = passing("batch 3");
  const HostTensor x = floats({2, 3}, kX);
  const HostTensor t = floats({2, 3}, {0, 0, 0, 0, 0, 1});
  EXPECT_NEAR(loss(m, "mse", x, t), (0.25 + 1 + 4 + 0 + 1 + 1.5625) / 6, 1e-6);
  EXPECT_NEAR(loss(m, "l1", x, t), (0.5 + 1 + 2 + 0 + 1 + 1.25) / 6, 1e-6);
  EXPECT_NEAR(loss(m, "smooth-l1", x, t), (0.125 + 0.5 + 1.5 + 0 + 0.5 + 0.75) / 6, 1e-6);
  double bce = 0;
  for (std::size_t i = 0; i < 6; ++i) bce += std::log1p(std::exp(static_cast<double>(kX[i]))) - (i == 5 ? -0.25 : 0);
  EXPECT_NEAR(loss(m, "bce", x, t), bce / 6, 1e-6);
}

TEST(OnnxLoss, EvaluationCountsWhatIsRight) {
  Maker m = passing("batch 3");
  const Graph g = build(m, {.mode = Mode::kEvaluation, .batch = 2, .loss = "cross-entropy"});
  EXPECT_TRUE(g.output("correct").has_value());
  EXPECT_TRUE(g.output("logits").has_value());
  EXPECT_FALSE(build(m, {.batch = 2, .loss = "cross-entropy"}).output("correct").has_value());
}

TEST(OnnxLoss, OfTheModelItself) {
  Maker m;
  m.input("x", "batch 3").input("t", "batch", pb::TensorProto::INT64).weight("w", {3, 3}).node("MatMul", "x w", "y");
  m.node("SoftmaxCrossEntropyLoss", "y t", "training_loss").output("y training_loss");
  const Graph g = build(m, {.batch = 2});
  EXPECT_EQ(g.at(*g.output("loss")).type.text(), "f32[]");
  EXPECT_FALSE(g.find("target").has_value());
}

TEST(OnnxLoss, OfOneElementIsTakenAsANumber) {
  Maker m = passing("batch 3");
  m.node("ReduceMean", "logits", "mean");  // [1,1]
  m.graph().mutable_output(0)->set_name("mean");
  const Graph g = build(m, {.batch = 2});
  EXPECT_EQ(g.at(*g.output("loss")).type.text(), "f32[]");
}

TEST(OnnxLoss, MissingOrUnknownSaysWhatThereIs) {
  Maker m = passing("batch 3");
  expect_user_error([&] { build(m, {.batch = 2}); }, {"--loss", "cross-entropy", "bce"});
  expect_user_error([&] { build(m, {.batch = 2, .loss = "hinge"}); }, {"'hinge'", "smooth-l1"});
  Maker flat;
  flat.input("x", "batch").number("one", 1).node("Mul", "x one", "y").output("y");
  expect_user_error([&] { build(flat, {.batch = 2, .loss = "cross-entropy"}); }, {"'y'", "no classes"});
  Maker taken = passing("batch 3");
  taken.input("target", "batch 3").node("Add", "logits target", "sum");
  expect_user_error([&] { build(taken, {.batch = 2, .loss = "mse"}); }, {"'target'"});
  Maker integers;
  integers.input("x", "batch 3", pb::TensorProto::INT64).node("Neg", "x", "y").output("y");
  expect_user_error([&] { build(integers, {.batch = 2, .loss = "mse"}); }, {"floats"});
}

TEST(OnnxLoss, GoesBehindTheResultCalledLogits) {
  Maker m = passing("batch 3");
  m.node("Exp", "x", "hidden");
  m.graph().mutable_output(0)->set_name("hidden");
  m.output("logits");
  const Graph g = build(m, {.batch = 2, .loss = "cross-entropy"});
  EXPECT_EQ(count(g, "exp"), 0);  // pruned: nothing reads it
}

}  // namespace
}  // namespace neap::onnx::testing
