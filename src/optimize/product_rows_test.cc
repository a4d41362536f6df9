#include "optimize/product_rows.h"

#include <gtest/gtest.h>

#include "autodiff/autodiff.h"
#include "neap/layers.h"
#include "optimize/optimize_testing.h"
#include "optimize/row_testing.h"

namespace neap {
namespace {

// A feed-forward with dropout and a residual. From 1537 rows on the result takes two chunks, too; an odd number makes
// the last one smaller.
Graph step_of(std::int64_t batch, std::int64_t length, const char* activation) {
  Builder g;
  const Value x = g.parameter("x", {batch, length, 256}, Init::normal(1));
  Value h = linear(g, "fc1", x, 320, {.init_std = 0.1});
  h = g(activation, {h});
  const Value y = g("add", {x, dropout(g, linear(g, "fc2", h, 256, {.init_std = 0.1}), 0.25)});
  return with_gradients(g, y);
}

void expect_groups_of_same_bits(std::int64_t batch, std::int64_t length, const char* activation) {
  const Graph before = step_of(batch, length, activation);
  const Graph after = with_product_rows(before);
  EXPECT_GE(count_of(after, "product_rows"), 2) << print(after);
  expect_same_bits(before, after);
}

TEST(ProductRows, KeepTheBitsOfForwardAndBackward) {
  for (const char* activation : {"gelu", "relu", "tanh"}) expect_groups_of_same_bits(9, 173, activation);
  expect_groups_of_same_bits(2, 1024, "gelu");
  expect_groups_of_same_bits(1, 1537, "gelu");
}

// What backward reads is made as before: [fc1] [gelu] stay apart, in backward product, gradient and product do not.
TEST(ProductRows, LeaveWhatIsKeptForBackward) {
  const Graph after = with_product_rows(step_of(9, 173, "gelu"));
  EXPECT_EQ(count_of(after, "gelu"), 1);
  EXPECT_EQ(count_of(after, "gelu_grad"), 0);
  EXPECT_EQ(count_of(after, "dropout"), 1);  // the one of backward
  EXPECT_EQ(count_of(after, "matmul"), 0);
}

TEST(ProductRows, LeaveWhatFitsIntoOneChunk) {
  const Graph before = step_of(1, 64, "gelu");
  EXPECT_EQ(print(with_product_rows(before)), print(before));
}

// A layer without outputs, as a file may have it.
TEST(ProductRows, LeaveRowsWithoutElements) {
  Builder g;
  const Value x = g.parameter("x", {512, 32}, Init::normal(1));
  const Value h = g("relu", {linear(g, "fc1", x, 0, {.init_std = 0.1})});
  const Graph before = with_gradients(g, linear(g, "fc2", h, 8, {.init_std = 0.1}));
  EXPECT_EQ(print(with_product_rows(before)), print(before));
}

TEST(ProductRows, StayInTheirPieces) {
  const Graph before = step_of(9, 173, "gelu");
  EXPECT_EQ(print(with_product_rows(before, Where(before.nodes.size(), -1))), print(before));
  Where apart(before.nodes.size());
  for (std::size_t i = 0; i < apart.size(); ++i) apart[i] = static_cast<int>(i);
  EXPECT_EQ(print(with_product_rows(before, apart)), print(before));
}

TEST(ProductRows, PrintedGraphsComeBack) {
  const Graph after = with_product_rows(step_of(9, 173, "relu"));
  EXPECT_EQ(print(parse_graph(print(after))), print(after));
}

}  // namespace
}  // namespace neap
