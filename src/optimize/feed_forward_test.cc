#include "optimize/feed_forward.h"

#include <gtest/gtest.h>

#include "autodiff/autodiff.h"
#include "neap/layers.h"
#include "optimize/optimize_testing.h"
#include "optimize/row_testing.h"

namespace neap {
namespace {

constexpr std::int64_t kWidth = 64;
constexpr std::int64_t kBetween = 8 * kWidth;

Value layer(Builder& g, std::string_view name, Value x, const char* activation) {
  const Builder::Scope scope(g, std::string(name));
  const Value h = g(activation, {linear(g, "fc1", layer_norm(g, "ln", x), kBetween, {.init_std = 0.1})});
  return g("add", {x, linear(g, "fc2", h, kWidth, {.init_std = 0.1})}, {}, "residual");
}

Value two_layers(Builder& g, std::int64_t rows, const char* activation) {
  const Value x = g.parameter("x", {rows, kWidth}, Init::normal(1));
  return layer(g, "b", layer(g, "a", x, activation), activation);
}

Graph inference(std::int64_t rows, const char* activation = "gelu") {
  Builder g(Mode::kEvaluation);
  g.output("y", two_layers(g, rows, activation));
  return g.take();
}

Graph training(std::int64_t rows, const char* activation = "gelu") {
  Builder g;
  return with_gradients(g, two_layers(g, rows, activation));
}

TEST(FeedForward, KeepsTheBitsOfInference) {
  for (const std::int64_t rows : {1537, 2048, 3001}) {
    for (const char* activation : {"gelu", "relu"}) {
      const Graph before = inference(rows, activation);
      const Graph after = with_tiled_feed_forward(before);
      EXPECT_EQ(count_of(after, "feed_forward_rows"), 2) << print(after);
      EXPECT_EQ(count_of(after, "linear"), 0);
      EXPECT_EQ(count_of(after, "add"), 0);
      expect_same_bits(before, after);
    }
  }
}

TEST(FeedForward, LeavesWhatBackwardReads) {
  const Graph before = training(1537);
  EXPECT_EQ(print(with_tiled_feed_forward(before)), print(before));
}

TEST(FeedForwardAgain, KeepsTheBitsOfForwardAndBackward) {
  for (const std::int64_t rows : {1537, 2048}) {
    for (const char* activation : {"gelu", "relu", "tanh"}) {
      const Graph before = training(rows, activation);
      const Graph after = with_feed_forward_again(before);
      EXPECT_EQ(count_of(after, "feed_forward_again_rows"), 4) << print(after);
      EXPECT_EQ(count_of(after, activation), 0);
      expect_same_bits(before, after);
    }
  }
}

TEST(FeedForwardAgain, IsForTrainingAndByNameOnly) {
  const Graph before = inference(2048);
  EXPECT_EQ(print(with_feed_forward_again(before)), print(before));
  for (const Optimization* each : chosen_optimizations("all")) EXPECT_NE(each->name, kFeedForwardAgain.name);
}

TEST(FeedForwardAgain, StaysInItsPieces) {
  const Graph before = training(1537);
  EXPECT_EQ(print(with_feed_forward_again(before, Where(before.nodes.size(), -1))), print(before));
}

}  // namespace
}  // namespace neap
