// Recomputation on whole models: whatever the policy and the budget, the bits of store-all, within the budget.
#include <gtest/gtest.h>

#include <chrono>
#include <ctime>

#include "autodiff/autodiff.h"
#include "autodiff/optimizer.h"
#include "neap/error.h"
#include "neap/layers.h"
#include "neap/train.h"
#include "plan/simulate.h"
#include "plan/validate.h"
#include "policy/layers.h"
#include "train/setup.h"

namespace neap {
namespace {

struct Case {
  const char* model;
  std::int64_t batch;
  std::int64_t length = 0;
  std::int64_t image = 0;
};

// Small, with dropout where the model has it.
constexpr Case kCases[] = {
    {.model = "mlp:hidden=64", .batch = 256},
    {.model = "cnn", .batch = 16},
    {.model = "resnet20", .batch = 8},
    {.model = "gpt-mini:width=64,layers=3,heads=2,dropout=0.1", .batch = 4, .length = 64},
    {.model = "bert-mini:width=64,layers=3,heads=2,dropout=0.1", .batch = 4, .length = 64},
    {.model = "lstm-lm:hidden=32,dropout=0.1", .batch = 8, .length = 96},
    {.model = "gru-lm:hidden=32,dropout=0.1", .batch = 8, .length = 96},
};

TrainOptions options_of(const Case& c) {
  TrainOptions out;
  out.model = c.model;
  out.batch = c.batch;
  out.length = c.length;
  out.image = c.image;
  out.steps = 4;  // the third runs on a plan from measured times
  out.guard = true;
  return out;
}

Summary train(TrainOptions options, const std::string& policy, const std::string& budget) {
  options.policy = policy;
  options.budget = budget;
  Trainer trainer(options);
  const std::int64_t first_peak = trainer.plan().peak_bytes;
  for (std::int64_t i = 0; i < options.steps; ++i) {
    const StepReport report = trainer.advance();
    EXPECT_TRUE(i > 0 || report.peak_bytes == first_peak) << options.model << ": what the simulator says";
  }
  const PlanReport plan = trainer.plan();
  EXPECT_LE(static_cast<double>(plan.peak_bytes), 1.01 * static_cast<double>(plan.lower_bound_bytes))
      << options.model << " " << policy << " " << budget;
  return trainer.summary();
}

// A share below the minimum counts as min+5%.
std::string possible(const Summary& least, int percent) {
  const std::int64_t bytes = least.state_bytes + (least.store_all_bytes - least.state_bytes) * percent / 100;
  return bytes < least.min_budget_bytes ? "min+5%" : std::to_string(percent) + "%";
}

class Checkpointing : public testing::TestWithParam<Case> {};

TEST_P(Checkpointing, GivesTheBitsOfStoreAllWithinEveryBudget) {
  const TrainOptions options = options_of(GetParam());
  const Summary want = train(options, "store-all", "");
  for (const std::string policy : {"oracle", "every-layer", "sqrt", "greedy", "dtr"}) {
    const Summary least = train(options, policy, "min");
    EXPECT_EQ(least.weights_hash, want.weights_hash) << policy << " min";
    const std::vector<int> shares = policy == "oracle" ? std::vector<int>{75, 50, 35, 0} : std::vector<int>{50, 0};
    for (const int percent : shares) {
      const std::string budget = possible(least, percent);
      const Summary got = train(options, policy, budget);
      EXPECT_EQ(got.weights_hash, want.weights_hash) << policy << " " << budget;
      EXPECT_EQ(got.violations, 0) << policy << " " << budget;
      EXPECT_LE(got.peak_bytes, got.budget_bytes.value_or(0)) << policy << " " << budget;
    }
  }
}

std::string name_of(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.model;
  name = name.substr(0, name.find(':'));
  std::erase(name, '-');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Models, Checkpointing, testing::ValuesIn(kCases), name_of);

PlanReport plan(const Case& c, const std::string& policy, const std::string& budget) {
  TrainOptions options = options_of(c);
  options.device = "null";
  options.policy = policy;
  options.budget = budget;
  return plan_training(options);
}

constexpr Case kGpt = {.model = "gpt-mini", .batch = 8, .length = 256};

TEST(Oracle, IsNoSlowerThanAnyOther) {
  for (const Case& c : {kGpt, Case{.model = "resnet18", .batch = 32}, Case{.model = "lstm-lm", .batch = 32}}) {
    for (const std::string policy : {"every-layer", "sqrt", "greedy", "dtr"}) {
      for (const char* budget : {"75%", "50%", "35%", "min+5%"}) {
        const PlanReport other = plan(c, policy, budget);
        if (!other.feasible) continue;
        const PlanReport oracle = plan(c, "oracle", std::to_string(*other.budget_bytes));
        EXPECT_TRUE(oracle.feasible);
        EXPECT_LE(oracle.predicted_step_ms, other.predicted_step_ms * 1.02)
            << c.model << " " << policy << " " << budget;
        EXPECT_LE(oracle.min_budget_bytes, other.min_budget_bytes * 1.02) << c.model << " " << policy;
      }
    }
  }
}

TEST(Oracle, HalvesTheActivationsForATenthOfTheTime) {
  const double all = plan(kGpt, "store-all", "").predicted_step_ms;
  EXPECT_LE(plan(kGpt, "oracle", "50%").predicted_step_ms, 1.13 * all);
  const Case resnet = {.model = "resnet18", .batch = 32};
  EXPECT_LE(plan(resnet, "oracle", "50%").predicted_step_ms, 1.15 * plan(resnet, "store-all", "").predicted_step_ms);
}

TEST(Plan, SaysForEachLayerWhatHappensAndWhy) {
  const PlanReport all = plan(kGpt, "oracle", "");
  for (const PlanReport::Layer& l : all.layers) EXPECT_EQ(l.action, "store") << l.name;
  const PlanReport half = plan(kGpt, "every-layer", "50%");
  ASSERT_GE(half.layers.size(), 12U);
  EXPECT_EQ(half.layers[2].action, "recompute");
  EXPECT_LT(half.layers[2].kept_bytes, all.layers[2].kept_bytes / 2);
  EXPECT_EQ(plan(kGpt, "sqrt", "min").layers[2].action.substr(0, 6), "every ");
  EXPECT_EQ(half.live_bytes.empty(), false);
  EXPECT_GT(half.backward_begins, 0);
}

TEST(Plan, BelowTheMinimumSaysWhatItConsistsOf) {
  TrainOptions options = options_of(kGpt);
  options.device = "null";
  options.budget = "130MB";
  try {
    Trainer trainer(options);
    ADD_FAILURE() << "accepted";
  } catch (const DoesNotFit& e) {
    const std::string what = e.what();
    for (const char* part : {"below the minimum of", "of state", "of gradients", "layer 'blocks."}) {
      EXPECT_NE(what.find(part), std::string::npos) << part << " in " << what;
    }
  }
}

// A chain of many layers, as an application might build it.
Graph long_chain(int layers) {
  Builder g;
  Value x = g.input("x", DType::kF32, {64, 128});
  for (int i = 0; i < layers; ++i) x = g("gelu", {linear(g, "l" + std::to_string(i), x, 128)});
  const Value loss = g("reduce_mean", {g("mul", {x, x})}, {{"keepdims", std::int64_t{0}}}, "loss");
  g.output("loss", loss);
  append_updates(g, differentiate(g, loss, g.graph().with_role(Role::kParameter)), {.name = "sgd", .lr = 0.1});
  return g.take();
}

TEST(Oracle, PlansAThousandLayersInSeconds) {
  const auto device = make_null_device();
  Program program = prepare(long_chain(1000), *device);
  program.costs.ms.assign(program.graph.nodes.size(), 0.01);
  const PlanningProblem problem{.graph = program.graph, .costs = program.costs};
  const Plan all = plan_within(store_all_policy(), problem, std::nullopt);
  const std::int64_t quarter = all.state_bytes + (all.peak_bytes - all.state_bytes) / 4;
  const std::clock_t start = std::clock();
  const std::optional<Plan> plan = oracle_policy().within(problem, quarter);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  ASSERT_TRUE(plan);
  EXPECT_LE(seconds, 5.0);  // under one undisturbed
  EXPECT_LE(simulate(*plan, program.costs).ms, 1.40 * simulate(all, program.costs).ms);
  const Plan least = oracle_policy().smallest(problem);
  EXPECT_LT(least.peak_bytes - least.state_bytes, (all.peak_bytes - all.state_bytes) / 20) << "segments in segments";
  EXPECT_FALSE(validate(least, program.graph, program.costs));
}

}  // namespace
}  // namespace neap
