#include "optimize/norm_rows.h"

#include <gtest/gtest.h>

#include "neap/layers.h"
#include "optimize/feed_forward.h"
#include "optimize/norm_gradient.h"
#include "optimize/product_rows.h"
#include "optimize/row_testing.h"

namespace neap {
namespace {

constexpr std::int64_t kWidth = 256;

Value mixed(Builder& g, std::string_view name, Value x) { return linear(g, name, x, kWidth, {.init_std = 0.1}); }

// A block with the norm first, as GPT's, or last, as BERT's; 1539 rows make the last chunk a smaller one.
Value block(Builder& g, std::string_view name, Value x, bool is_first) {
  const Builder::Scope scope(g, std::string(name));
  if (is_first) return g("add", {x, mixed(g, "b", g("gelu", {mixed(g, "a", layer_norm(g, "ln", x))}))});
  return layer_norm(g, "ln", g("add", {x, mixed(g, "b", g("gelu", {mixed(g, "a", x)}))}));
}

Value network(Builder& g, bool is_first, std::int64_t rows) {
  const Value x = g.parameter("x", {3, rows / 3, kWidth}, Init::normal(1));
  return block(g, "second", block(g, "first", x, is_first), is_first);
}

Graph inference(bool is_first, std::int64_t rows = 1539) {
  Builder g(Mode::kEvaluation);
  g.output("y", network(g, is_first, rows));
  return g.take();
}

Graph training(bool is_first, std::int64_t rows = 1539) {
  Builder g;
  return with_gradients(g, network(g, is_first, rows));
}

TEST(NormRows, KeepTheBitsOfInference) {
  for (const bool is_first : {true, false}) {
    const Graph before = inference(is_first);
    const Graph after = with_norm_rows(before);
    EXPECT_EQ(count_of(after, "norm_rows"), 2) << print(after);
    EXPECT_EQ(count_of(after, "layer_norm"), 0);
    expect_same_bits(before, after);
  }
}

// [a, gelu] [b, add] are groups already; the norm between them makes one of them with it.
TEST(NormRows, JoinWhatOtherPassesMade) {
  for (const bool is_first : {true, false}) {
    const Graph before = inference(is_first);
    const Graph after = with_norm_rows(with_product_rows(before));
    EXPECT_EQ(count_of(after, "layer_norm"), 0) << print(after);
    EXPECT_LT(after.nodes.size(), with_product_rows(before).nodes.size());
    expect_same_bits(before, after);
  }
}

TEST(NormRows, KeepTheBitsOfForwardAndBackward) {
  for (const std::int64_t rows : {1539, 2049}) {
    const Graph before = training(true, rows);
    const Graph after = with_norm_rows(before);
    EXPECT_EQ(count_of(after, "norm_rows"), 2) << print(after);
    EXPECT_EQ(count_of(after, "layer_norm"), 2);  // once more, in backward
    for (const Node& node : after.nodes) {
      EXPECT_TRUE(node.op->name != "layer_norm" || node.phase == Phase::kBackward);
    }
    expect_same_bits(before, after);
  }
}

// What forward reads more than once is kept as it is.
TEST(NormRows, LeaveNormsThatTheResidualReads) {
  const Graph before = training(false);
  EXPECT_EQ(print(with_norm_rows(before)), print(before));
}

TEST(NormRows, StayInTheirPieces) {
  const Graph before = training(true);
  Where apart(before.nodes.size());
  for (std::size_t i = 0; i < apart.size(); ++i) apart[i] = static_cast<int>(i);
  EXPECT_EQ(print(with_norm_rows(before, apart)), print(before));
  EXPECT_EQ(print(with_norm_rows(before, Where(before.nodes.size(), -1))), print(before));
}

TEST(NormGradient, KeepsTheBitsOfBackward) {
  for (const bool is_first : {true, false}) {
    const Graph before = training(is_first, 96);
    const Graph after = with_norm_gradient(before);
    EXPECT_EQ(count_of(after, "layer_norm_grad_sum"), is_first ? 2 : 0) << print(after);
    EXPECT_EQ(after.nodes.size() + static_cast<std::size_t>(is_first ? 2 : 0), before.nodes.size());
    expect_same_bits(before, after);
  }
}

TEST(NormGradient, StaysInItsPieces) {
  const Graph before = training(true, 96);
  Where apart(before.nodes.size());
  for (std::size_t i = 0; i < apart.size(); ++i) apart[i] = static_cast<int>(i);
  EXPECT_EQ(print(with_norm_gradient(before, apart)), print(before));
  EXPECT_EQ(print(with_norm_gradient(before, Where(before.nodes.size(), -1))), print(before));
}

}  // namespace
}  // namespace neap
