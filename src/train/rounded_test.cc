// What is rounded is settled by guesses, steps and data; measured times and the moment at which a plan comes change no
// bit.
#include "train/rounded.h"

#include <gtest/gtest.h>

#include "core/file_testing.h"
#include "core/random.h"
#include "neap/layers.h"
#include "neap/train.h"
#include "plan/rounding.h"
#include "train/setup.h"

namespace neap {
namespace {

constexpr std::int64_t kBatch = 512;
constexpr std::int64_t kWidth = 32;
constexpr int kLayers = 4;

// Wide and narrow layers in turn: what is cheap to make again lies beside what is not.
class Tower final : public Model {
 public:
  std::string name() const override { return "tower"; }
  void build(Builder& g, const BuildRequest& request) const override {
    Value y = g.input("x", DType::kF32, {request.batch, kWidth});
    const Value target = g.input("target", DType::kF32, {request.batch, 1});
    for (int i = 0; i < kLayers; ++i) {
      const std::string name = "layer" + std::to_string(i);
      const Value wide = g("gelu", {linear(g, name + ".up", y, 4 * kWidth)});
      y = g("add", {y, g("gelu", {linear(g, name + ".down", wide, kWidth)})});
    }
    g.output("loss", g("mse", {linear(g, "last", y, 1), target}));
  }
};

class Source {
 public:
  explicit Source(std::int64_t done = 0) : step_(done) {}
  void operator()(std::string_view input, std::span<std::byte> dst) {
    if (input == "x") ++step_;
    RandomStream random(static_cast<std::uint64_t>(step_) * 2 + (input == "x" ? 1 : 0));
    auto* const values = reinterpret_cast<float*>(dst.data());
    // Outliers come and go, so that levels change.
    for (std::size_t i = 0; i < dst.size() / sizeof(float); ++i) {
      values[i] = static_cast<float>(random.normal()) * (step_ % 24 >= 12 && i % 197 == 0 ? 20.0F : 1.0F);
    }
  }

 private:
  std::int64_t step_;
};

TrainOptions options_of(const std::string& budget) {
  TrainOptions out{.batch = kBatch, .policy = "adaptive"};
  out.budget = budget;
  out.guard = true;
  out.threads = 1;
  out.optimizer = {.name = "sgd", .lr = 0.01, .weight_decay = 0};
  out.precision.tolerance = "default";
  out.precision.profiling_batches = 2;
  out.precision.profiling_window = 2;
  return out;
}

Summary run(const TrainOptions& options, int steps) {
  Trainer trainer(std::make_shared<Tower>(), options, Source());
  for (int i = 0; i < steps; ++i) trainer.advance();
  return trainer.summary();
}

TEST(Rounding, WhenPlansComeChangesNoBit) {
  constexpr int kSteps = 40;
  TrainOptions options = options_of("50%");
  options.synchronous_planning = true;
  const Summary at_once = run(options, kSteps);
  EXPECT_EQ(at_once.violations, 0);
  EXPECT_GT(at_once.plan_swaps, 1) << "levels change, and plans follow the times";
  EXPECT_GT(at_once.encoding_error, 0);
  options.synchronous_planning = false;
  for (const int delay_ms : {0, 30}) {
    options.planning_delay_ms = delay_ms;
    EXPECT_EQ(run(options, kSteps).weights_hash, at_once.weights_hash) << delay_ms;
  }
}

TEST(Rounding, ABudgetThatChangesSettlesAnew) {
  TrainOptions options = options_of("90%");
  options.budget_schedule = "6:50%,12:80%";
  options.synchronous_planning = true;
  const Summary at_once = run(options, 18);
  EXPECT_EQ(at_once.violations, 0);
  options.synchronous_planning = false;
  options.planning_delay_ms = 5;
  EXPECT_EQ(run(options, 18).weights_hash, at_once.weights_hash);
}

// Cut where new levels are chosen and do not hold yet, too.
TEST(Rounding, AResumedRunGoesOnToTheSameBits) {
  constexpr int kSteps = 36;
  TrainOptions options = options_of("50%");
  const std::string whole = run(options, kSteps).weights_hash;
  for (const int cut : {5, 20}) {
    const testing::TempDir folder;
    options.checkpoint = folder.path().string();
    {
      Trainer first(std::make_shared<Tower>(), options, Source());
      for (int i = 0; i < cut; ++i) first.advance();
      first.checkpoint();
    }
    TrainOptions later = options;
    later.resume = true;
    Trainer second(std::make_shared<Tower>(), later, Source(cut));
    for (int i = cut; i < kSteps; ++i) second.advance();
    EXPECT_EQ(second.summary().weights_hash, whole) << cut;
  }
}

// Whatever calls take, plans for what is settled round the same tensors, by recomputation, by transfers and by both.
TEST(Rounding, PlansFromAnyTimesRoundWhatIsSettled) {
  const auto setup = make_setup(std::make_shared<Tower>(), options_of("50%"));
  const Graph& graph = setup.program->graph;
  const StateLayout layout = layout_of(setup.plan, graph);
  const Rounded rounded = rounded_by(setup.plan, graph, setup.levels->in(graph));
  const PlanningProblem guessed{graph, setup.program->costs, setup.link, &layout, &rounded.levels};
  const std::uint64_t key = rounding_key(plan_within(store_all_policy(), guessed, std::nullopt), graph);
  ASSERT_NE(key, 0U);
  RandomStream random(1);
  int others = 0;
  for (int i = 0; i < 6; ++i) {
    Costs costs = setup.program->costs;
    for (double& ms : costs.ms) ms *= 0.1 + 4 * random.uniform();
    const PlanningProblem problem{graph, costs, setup.link, &layout, &rounded.levels};
    for (const char* name : {"adaptive", "oracle", "greedy", "spill"}) {
      const std::optional<Plan> plan = make_policy(name, {}, i % 2 == 0)->within(problem, *setup.budget);
      if (!plan) continue;
      EXPECT_LE(plan->peak_bytes, *setup.budget);
      EXPECT_EQ(rounding_key(*plan, graph), key) << name;
      others += *plan == setup.plan ? 0 : 1;
    }
  }
  EXPECT_GT(others, 0);
}

}  // namespace
}  // namespace neap
