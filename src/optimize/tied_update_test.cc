#include "optimize/tied_update.h"

#include <gtest/gtest.h>

#include <cmath>

#include "autodiff/autodiff.h"
#include "autodiff/optimizer.h"
#include "neap/layers.h"
#include "optimize/optimize_testing.h"
#include "optimize/vocab_loss.h"

namespace neap {
namespace {

constexpr std::int64_t kRows = 512;
constexpr std::int64_t kClasses = 8448;
constexpr std::int64_t kWidth = 512;

struct Step {
  std::int64_t rows = kRows;
  std::int64_t classes = kClasses;
  int lookups = 1;
  bool computes_ids = false;
  bool reads_gradient = false;
  bool scales = false;  // by a factor from outside
  OptimizerOptions optimizer = {.name = "adamw", .weight_decay = 0.1};
  std::int64_t parts = 1;
};

// An embedding whose table is the head's weight too, as in GPT.
Graph tied_step(const Step& s) {
  Builder g;
  const Value table = g.parameter("table", {s.classes, kWidth}, Init::normal(1));
  const Value targets = g.input("targets", DType::kI32, {s.rows});
  Value x;
  for (int i = 0; i < s.lookups; ++i) {
    Value ids = g.input("ids" + std::to_string(i), DType::kI32, {s.rows});
    if (s.computes_ids) ids = g("add", {ids, ids});
    const Value picked = g("gelu", {g("embedding", {table, ids})});
    x = i == 0 ? picked : g("add", {x, picked});
  }
  const Value loss = cross_entropy_loss(g, g("linear", {x, table}), targets);
  g.output("loss", loss);
  const auto gradients = differentiate(g, loss, {table});
  if (s.reads_gradient) g.output("gradient", gradients.begin()->second);
  append_updates(g, gradients, s.optimizer, s.parts);
  const Value factor = g.input("factor", DType::kF32, {1});
  Graph out = g.take();
  if (s.scales) out.nodes.back().inputs.back() = factor;
  return out;
}

std::map<std::string, HostTensor> inputs_of(const Graph& graph) {
  std::map<std::string, HostTensor> out;
  std::uint64_t key = 0;
  for (const Tensor& t : graph.tensors) {
    if (!t.producer) out.emplace(t.name, random_values(t.type, ++key, kClasses / 2));
  }
  for (std::int64_t i = 0; i < kRows; i += 4) out.at("ids0").as<std::int32_t>()[i] = 77;  // one token many times
  const Hyper hyper = hyper_at(3, 0.01, {.name = "adamw", .weight_decay = 0.1});
  std::copy(hyper.begin(), hyper.end(), out.at(std::string(kHyperInput)).floats());
  if (const auto v = out.find("table.v"); v != out.end()) {
    for (std::int64_t i = 0; i < kClasses * kWidth; ++i) v->second.floats()[i] = std::abs(v->second.floats()[i]);
  }
  return out;
}

// State and loss behind the step.
void expect_same_step(const Graph& before, const Graph& after) {
  const auto was = evaluate(before, inputs_of(before));
  const auto is = evaluate(after, inputs_of(after));
  for (const char* name : {"table", "table.m", "table.v", "table.momentum"}) {
    if (!before.find(name)) continue;
    EXPECT_EQ(is[after.find(name)->index].data, was[before.find(name)->index].data) << name;
  }
  EXPECT_EQ(is[after.output("loss")->index].data, was[before.output("loss")->index].data);
}

TEST(TiedUpdate, KeepsTheBitsOfAWholeGradient) {
  for (const int lookups : {1, 2}) {
    const Graph before = tied_step({.lookups = lookups});
    const Graph after = split_tied_updates(before);
    EXPECT_EQ(count_of(after, "rest_update"), 1);
    EXPECT_EQ(count_of(after, "rows_update"), 1);
    EXPECT_EQ(count_of(after, "embedding_grad") + count_of(after, "adamw_update"), 0);
    expect_same_step(before, after);
  }
}

// Beside a tiled loss the gradient is never there as a whole.
TEST(TiedUpdate, KeepsTheBitsOfATiledLoss) {
  const Graph before = tile_vocab_loss(tied_step({}));
  ASSERT_EQ(count_of(before, "vocab_loss"), 1);
  const Graph after = split_tied_updates(before);
  EXPECT_EQ(count_of(after, "vocab_loss"), 0);
  EXPECT_GT(count_of(after, "vocab_weight"), 8);
  EXPECT_EQ(count_of(after, "rest_update"), count_of(after, "vocab_weight"));
  const std::int64_t whole = kClasses * kWidth * 4;
  for (const Tensor& t : after.tensors) {
    if (t.role == Role::kActivation && t.name.find(".weight") != std::string::npos) {
      EXPECT_LE(t.type.bytes(), whole / 8);
    }
  }
  expect_same_step(before, after);
}

// With more rows than features the loss sums the gradient up over chunks of rows.
TEST(TiedUpdate, LeavesAGradientWholeThatALossSumsUp) {
  const Graph before = tile_vocab_loss(tied_step({.rows = 1024}));
  const Graph after = split_tied_updates(before);
  EXPECT_EQ(count_of(after, "vocab_loss"), 1);
  EXPECT_EQ(count_of(after, "rest_update"), 1);
}

TEST(TiedUpdate, KnowsEveryOptimizer) {
  const OptimizerOptions sgd{.name = "sgd", .momentum = 0};
  const OptimizerOptions nesterov{.name = "sgd", .momentum = 0.9, .nesterov = true};
  for (const OptimizerOptions& optimizer : {sgd, nesterov, OptimizerOptions{.name = "adam"}}) {
    const Graph before = tied_step({.optimizer = optimizer});
    const Graph after = split_tied_updates(before);
    EXPECT_EQ(count_of(after, "rest_update"), 1);
    expect_same_step(before, after);
  }
}

TEST(TiedUpdate, LeavesWhatItDoesNotKnow) {
  OptimizerOptions clipped{.name = "adamw"};
  clipped.clip = 1;
  for (const Step& step :
       {Step{.optimizer = clipped}, Step{.parts = 2}, Step{.reads_gradient = true}, Step{.scales = true},
        Step{.computes_ids = true}, Step{.rows = kClasses / 2 + 1}, Step{.classes = 500}}) {
    const Graph before = tied_step(step);
    EXPECT_EQ(print(split_tied_updates(before)), print(before));
  }
}

TEST(TiedUpdate, StaysInItsPiece) {
  const Graph before = tied_step({});
  Where where(before.nodes.size(), 0);
  where.back() = -1;
  EXPECT_EQ(print(split_tied_updates(before, where)), print(before));
  where.back() = 1;
  EXPECT_EQ(print(split_tied_updates(before, where)), print(before));
  where.back() = 0;
  EXPECT_NE(print(split_tied_updates(before, where)), print(before));
}

}  // namespace
}  // namespace neap
