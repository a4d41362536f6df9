#include "optimize/vocab_loss.h"

#include <gtest/gtest.h>

#include <cmath>

#include "autodiff/autodiff.h"
#include "neap/layers.h"
#include "optimize/optimize_testing.h"

namespace neap {
namespace {

constexpr std::int64_t kRows = 512;
constexpr std::int64_t kClasses = 10000;
constexpr std::int64_t kWidth = 16;

// An embedding whose table is the head's weight too, as in GPT.
Graph tied_step(bool reads_logits = false) {
  Builder g;
  const Value ids = g.input("ids", DType::kI32, {kRows});
  const Value targets = g.input("targets", DType::kI32, {kRows});
  const Value table = g.parameter("table", {kClasses, kWidth}, Init::normal(1));
  const Value logits = g("linear", {g("embedding", {table, ids}), table});
  const Value loss = cross_entropy_loss(g, logits, targets);
  if (reads_logits) g.output("logits", logits);
  g.output("gradient", differentiate(g, loss, {table}).begin()->second);
  return g.take();
}

std::map<std::string, HostTensor> inputs() {
  return {{"ids", random_values({DType::kI32, {kRows}}, 1, kClasses)},
          {"targets", random_values({DType::kI32, {kRows}}, 2, kClasses)},
          {"table", random_values({DType::kF32, {kClasses, kWidth}}, 3)}};
}

TEST(TiledVocabLoss, GivesTheSameLossAndGradients) {
  const Graph before = tied_step();
  const Graph after = tile_vocab_loss(before);
  EXPECT_EQ(count_of(after, "vocab_loss"), 1);
  for (const char* op : {"linear", "cross_entropy", "cross_entropy_grad", "linear_grad_weight", "matmul"}) {
    EXPECT_EQ(count_of(after, op), 0) << op;
  }
  const auto was = evaluate(before, inputs());
  const auto is = evaluate(after, inputs());
  const auto at = [](const Graph& graph, const auto& values, const char* name) -> const HostTensor& {
    return values[graph.output(name)->index];
  };
  EXPECT_NEAR(at(after, is, "loss").floats()[0], at(before, was, "loss").floats()[0], 1e-6);
  const HostTensor& old_gradient = at(before, was, "gradient");
  const HostTensor& new_gradient = at(after, is, "gradient");
  for (std::size_t i = 0; i < static_cast<std::size_t>(kClasses * kWidth); ++i) {
    const float expected = old_gradient.floats()[i];
    ASSERT_NEAR(new_gradient.floats()[i], expected, 1e-6 * (1 + std::abs(expected))) << i;
  }
}

TEST(TiledVocabLoss, LeavesLogitsThatSomebodyReads) {
  const Graph before = tied_step(true);
  EXPECT_EQ(print(tile_vocab_loss(before)), print(before));
}

}  // namespace
}  // namespace neap
