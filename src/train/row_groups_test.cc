// Passes that run groups of ops by rows, each alone, in whole runs: the same bits, and what they spare.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "neap/infer.h"
#include "neap/train.h"

namespace neap {
namespace {

// 1025 rows: two chunks of different size.
TrainOptions gpt(const std::string& optimize, int layers = 1) {
  TrainOptions out{
      .model = fmt::format("gpt-mini:layers={},width=128,heads=2", layers), .steps = 2, .batch = 5, .length = 205};
  out.optimize = optimize;
  return out;
}

std::string hash_of(const TrainOptions& options) {
  Trainer trainer(options);
  for (std::int64_t i = 0; i < options.steps; ++i) trainer.advance();
  EXPECT_EQ(trainer.summary().violations, 0);
  return trainer.summary().weights_hash;
}

TEST(RowGroups, EachAloneKeepsTheBitsOfATrainingRun) {
  const std::string bits = hash_of(gpt("off"));
  for (const char* name : {"epilogue", "feed-forward", "feed-forward-again", "norm", "norm-gradient"}) {
    EXPECT_EQ(hash_of(gpt(name)), bits) << name;
  }
}

TEST(RowGroups, AreRecomputedAsOthersAre) {
  TrainOptions options = gpt("all");
  options.budget = "min";
  EXPECT_EQ(hash_of(options), hash_of(gpt("off")));
}

TEST(RowGroups, FeedForwardAgainKeepsLessForBackward) {
  constexpr int kLayers = 5;
  constexpr std::int64_t kWide = 1025 * 4 * 128 * 4;  // bytes: of each layer, but for the two that backward works on
  EXPECT_LE(plan_training(gpt("feed-forward-again", kLayers)).peak_bytes,
            plan_training(gpt("off", kLayers)).peak_bytes - (kLayers - 2) * kWide);
}

// The scratch of a chunk may be on top.
TEST(RowGroups, NothingNeedsMoreThanBefore) {
  constexpr std::int64_t kChunk = 1536 << 10;
  const PlanReport off = plan_training(gpt("off", 2));
  for (const char* name : {"epilogue", "feed-forward", "norm", "norm-gradient"}) {
    EXPECT_LE(plan_training(gpt(name, 2)).peak_bytes, off.peak_bytes + kChunk) << name;
    EXPECT_LE(plan_training(gpt(name, 2)).min_budget_bytes, off.min_budget_bytes + kChunk) << name;
  }
}

// Weights aside, the widest moment of a block was its feed-forward.
TEST(RowGroups, FeedForwardSparesTheWideTensorInInference) {
  const auto run = [](const char* optimize) {
    const TrainOptions options = gpt(optimize);
    return infer(open_model(options.model), options, {.split = "", .samples = 10});
  };
  const InferReport off = run("off");
  for (const char* name : {"feed-forward", "all"}) {
    const InferReport tiled = run(name);
    EXPECT_EQ(tiled.result.loss, off.result.loss) << name;
    EXPECT_LT(static_cast<double>(tiled.peak_bytes - tiled.state_bytes),
              0.95 * static_cast<double>(off.peak_bytes - off.state_bytes))
        << name;
  }
}

TEST(RowGroups, ConvolutionsKeepTheirBitsAndSpareAnImageOrTwo) {
  const auto options = [](const char* optimize) {
    TrainOptions out{.model = "resnet18", .steps = 1, .batch = 6};
    out.image = 32;
    out.optimize = optimize;
    return out;
  };
  EXPECT_EQ(hash_of(options("conv-epilogue")), hash_of(options("off")));
  const auto run = [&](const char* optimize) {
    return infer(open_model("resnet18"), options(optimize), {.split = "", .samples = 6});
  };
  EXPECT_EQ(run("conv-epilogue").result.loss, run("off").result.loss);
  EXPECT_LE(run("conv-epilogue").peak_bytes, run("off").peak_bytes);
}

}  // namespace
}  // namespace neap
