#include "train/state.h"

#include <gtest/gtest.h>

#include <cstring>

#include "neap/error.h"

namespace neap {
namespace {

Tensor parameter(const char* name, Init init) {
  return {.name = name, .type = {DType::kF32, {1000}}, .role = Role::kParameter, .trainable = true, .init = init};
}

TEST(InitialValue, DependsOnSeedAndNameAlone) {
  const auto a = initial_value(parameter("a", Init::normal(1)), 0);
  EXPECT_EQ(a, initial_value(parameter("a", Init::normal(1)), 0));
  EXPECT_NE(a, initial_value(parameter("a", Init::normal(1)), 1));
  EXPECT_NE(a, initial_value(parameter("b", Init::normal(1)), 0));
}

TEST(InitialValue, HasTheAskedSpread) {
  const auto bytes = initial_value(parameter("a", Init::uniform(0.5)), 0);
  std::vector<float> values(1000);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  double sum = 0;
  double squares = 0;
  for (const float v : values) {
    EXPECT_LE(std::abs(v), 0.5F);
    sum += v;
    squares += static_cast<double>(v) * v;
  }
  EXPECT_NEAR(sum / 1000, 0, 0.03);
  EXPECT_NEAR(squares / 1000, 0.25 / 3, 0.01);
}

// Outside [2,3,1,2] with numbers counting up; here the second axis comes last.
TEST(Outside, MovesAxesThereAndBack) {
  std::vector<float> values(12);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  Tensor t;
  t.name = "w";
  t.type = TensorType{DType::kF32, Shape{2, 1, 2, 3}};
  t.role = Role::kParameter;
  t.data = Blob::of(bytes);
  t.outside_axes = {0, 3, 1, 2};
  EXPECT_EQ(outside_type(t).shape, (Shape{2, 3, 1, 2}));
  const auto here = initial_value(t, 0);
  std::vector<float> got(12);
  std::memcpy(got.data(), here.data(), here.size());
  EXPECT_EQ(got, (std::vector<float>{0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11}));
  EXPECT_EQ(to_outside(t, here.data()), bytes);
}

TEST(Matches, KnowsStarAndQuestionMark) {
  EXPECT_TRUE(matches("blocks.*.weight", "blocks.0.fc1.weight"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("fc?", "fc1"));
  EXPECT_FALSE(matches("fc?", "fc"));
  EXPECT_FALSE(matches("fc1", "fc12"));
  EXPECT_FALSE(matches("*.bias", "fc1.weight"));
  EXPECT_FALSE(matches(std::string(40, '*') + "x", std::string(5000, 'y')));  // in no time
}

TEST(Freeze, RefusesAPatternThatMatchesNothing) {
  Graph graph;
  graph.add(parameter("fc1.weight", {}));
  freeze(graph, {"fc*"});
  EXPECT_FALSE(graph.tensors[0].trainable);
  EXPECT_THROW(freeze(graph, {"conv*"}), UserError);
}

}  // namespace
}  // namespace neap
