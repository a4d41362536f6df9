#include "optimize/conv_rows.h"

#include <gtest/gtest.h>

#include "neap/layers.h"
#include "optimize/row_testing.h"

namespace neap {
namespace {

constexpr std::int64_t kImages = 7;  // in chunks of four: the last has three
constexpr std::int64_t kChannels = 48;

Value conv(Builder& g, const std::string& name, Value x) {
  const Value w = g.parameter(name + ".weight", {kChannels, 3, 3, kChannels}, Init::normal(0.1));
  const Value b = g.parameter(name + ".bias", {kChannels}, Init::normal(0.1));
  return g("conv", {x, w, b}, {{"pads", Ints{1, 1, 1, 1}}}, name);
}

Value image(Builder& g) { return g.parameter("x", {kImages, 48, 48, kChannels}, Init::normal(1)); }

// Convolutions with bias and relu, and a residual.
Value plain(Builder& g) {
  const Value x = image(g);
  const Value y = g("relu", {g("add", {x, conv(g, "b", g("relu", {conv(g, "a", x)}))})});
  return g("relu", {conv(g, "c", y)});
}

Value normed(Builder& g) {
  const Value x = image(g);
  const Value y = batch_norm(g, "n1", conv(g, "a", x), {.relu = true});
  return batch_norm(g, "n2", conv(g, "b", y), {.relu = true, .residual = x});
}

TEST(ConvRows, KeepTheBitsOfForwardAndBackward) {
  Builder g;
  const Graph before = with_gradients(g, plain(g));
  const Graph after = with_conv_rows(before);
  EXPECT_EQ(count_of(after, "conv"), 0) << print(after);
  EXPECT_EQ(count_of(after, "relu"), 0);
  EXPECT_GE(count_of(after, "conv_rows"), 5);  // three of forward; in backward those whose result passes a gate
  EXPECT_LT(count_of(after, "relu_grad"), count_of(before, "relu_grad"));
  expect_same_bits(before, after);
}

TEST(ConvRows, TakeBatchNormWhoseStatisticsAreKnown) {
  Builder g(Mode::kEvaluation);
  g.output("y", normed(g));
  const Graph before = g.take();
  const Graph after = with_conv_rows(before);
  EXPECT_EQ(count_of(after, "conv_rows"), 2) << print(after);
  EXPECT_EQ(count_of(after, "batch_norm_apply"), 0);
  expect_same_bits(before, after);
}

// Statistics of the batch need all images of a convolution before the first of them can be normed.
TEST(ConvRows, LeaveBatchNormThatIsTrained) {
  Builder g;
  const Graph after = with_conv_rows(with_gradients(g, normed(g)));
  EXPECT_EQ(count_of(after, "conv"), 2);
  EXPECT_EQ(count_of(after, "batch_norm_apply"), 2);
}

TEST(ConvRows, StayInTheirPieces) {
  Builder g;
  const Graph before = with_gradients(g, plain(g));
  Where apart(before.nodes.size());
  for (std::size_t i = 0; i < apart.size(); ++i) apart[i] = static_cast<int>(i);
  EXPECT_EQ(print(with_conv_rows(before, apart)), print(before));
  EXPECT_EQ(print(with_conv_rows(before, Where(before.nodes.size(), -1))), print(before));
}

}  // namespace
}  // namespace neap
