// A shared table's update in parts (optimize/tied_update.h), in whole runs: the same bits, fewer bytes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "autodiff/optimizer.h"
#include "graph/initial.h"
#include "graph/op.h"
#include "neap/builtin_models.h"
#include "neap/train.h"
#include "train/model_spec.h"
#include "train/resume_testing.h"
#include "train/setup.h"
#include "train/stepper.h"
#include "train/tuner.h"

namespace neap {
namespace {

// A table of 8 MiB; tokens come more than once.
TrainOptions plain(const std::string& optimize) {
  TrainOptions out{.model = "gpt-mini:layers=2,width=256,heads=2,vocab=8192", .steps = 3, .batch = 4, .length = 64};
  out.optimize = optimize;
  out.optimizer = {.name = "adamw", .lr = 0.01, .weight_decay = 0.1};
  out.synchronous_planning = true;
  return out;
}

// With logits so large that the loss is tiled, and a gradient that takes more.
TrainOptions tiled(const std::string& optimize, int layers = 1) {
  TrainOptions out = plain(optimize);
  out.model = fmt::format("gpt-mini:layers={},width=528,heads=2,vocab=8704,context=128", layers);
  out.length = 128;
  return out;
}

std::string hash_of(const TrainOptions& options) {
  Trainer trainer(options);
  for (std::int64_t i = 0; i < options.steps; ++i) trainer.advance();
  EXPECT_EQ(trainer.summary().violations, 0);
  return trainer.summary().weights_hash;
}

TEST(TiedUpdateTraining, KeepsTheBits) {
  EXPECT_EQ(hash_of(plain("tied-update")), hash_of(plain("off")));
  EXPECT_EQ(hash_of(tiled("vocab-loss,tied-update")), hash_of(tiled("vocab-loss")));
}

// On a GPU by its name; the tiled loss of itself.
TEST(TiedUpdateTraining, IsForAGpuByName) {
  const auto has = [](const std::string& optimize, std::string_view op) {
    TrainOptions o = tiled(optimize);
    o.device = "cuda";
    const Graph graph = build_training(make_spec(open_builtin_model(o.model), o), o);
    return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) { return node.op->name == op; });
  };
  EXPECT_TRUE(has("vocab-loss", "vocab_loss"));
  EXPECT_TRUE(has("vocab-loss,tied-update", "vocab_delta"));
  EXPECT_TRUE(has("tied-update", "rest_update"));
  EXPECT_TRUE(has("adaptive", "vocab_loss"));
  EXPECT_FALSE(has("adaptive", "rest_update"));
}

TEST(TiedUpdateTraining, KeepsTheBitsOfEveryOptimizer) {
  for (const OptimizerOptions& optimizer :
       {OptimizerOptions{.name = "sgd", .lr = 0.01, .momentum = 0},
        OptimizerOptions{.name = "sgd", .lr = 0.01, .nesterov = true}, OptimizerOptions{.name = "adam", .lr = 0.01}}) {
    TrainOptions with = plain("tied-update");
    TrainOptions without = plain("off");
    with.optimizer = without.optimizer = optimizer;
    EXPECT_EQ(hash_of(with), hash_of(without)) << optimizer.name << optimizer.momentum;
  }
}

// Where it may not or cannot apply, and where others change the step around it.
TEST(TiedUpdateTraining, KeepsTheBitsBesideOtherTechniques) {
  const auto check = [](const char* what, const auto& change) {
    TrainOptions with = plain("tied-update");
    TrainOptions without = plain("off");
    change(with);
    change(without);
    EXPECT_EQ(hash_of(with), hash_of(without)) << what;
  };
  check("clip", [](TrainOptions& o) { o.optimizer.clip = 0.5; });
  check("accumulate", [](TrainOptions& o) { o.accumulate = 2; });
  check("split", [](TrainOptions& o) { o.split = 2; });
  check("freeze", [](TrainOptions& o) { o.freeze = {"wte.*"}; });
  check("prune", [](TrainOptions& o) { o.prune = "2:4"; });
  check("lengths", [](TrainOptions& o) { o.length_schedule = "1:32,2:64"; });
}

TEST(TiedUpdateTraining, KeepsTheBitsWithinBudgets) {
  const std::string bits = hash_of(tiled("vocab-loss"));
  for (const char* policy : {"adaptive", "oracle", "greedy", "dtr", "sqrt"}) {
    for (const char* budget : {"min", "min+10%"}) {
      TrainOptions options = tiled("vocab-loss,tied-update");
      options.policy = policy;
      options.budget = budget;
      EXPECT_EQ(hash_of(options), bits) << policy << budget;
    }
  }
  TrainOptions spilled = tiled("vocab-loss,tied-update");
  spilled.policy = "spill";
  spilled.host_ram = 1 << 30;
  spilled.budget = "min";
  EXPECT_EQ(hash_of(spilled), bits);
}

TEST(TiedUpdateTraining, GoesOnFromACheckpoint) {
  TrainOptions options = tiled("vocab-loss,tied-update");
  options.steps = 4;
  testing::expect_same_bits_resumed(options);
}

// Of the gradient a few tiles are left, beside logits. In the least plan, too: none runs the lookup again, for which
// the parts would wait.
TEST(TiedUpdateTraining, TheGradientIsNeverThereAsAWhole) {
  constexpr std::int64_t kGradient = 8704 * 528 * 4;
  const PlanReport off = plan_training(tiled("off", 4));
  const PlanReport both = plan_training(tiled("vocab-loss,tied-update", 4));
  EXPECT_LE(both.peak_bytes, off.peak_bytes - kGradient * 3 / 4);
  EXPECT_LE(both.min_budget_bytes, off.min_budget_bytes - kGradient / 2);
}

void put_in(Stepper& stepper) {
  const Graph& graph = stepper.graph();
  for (std::uint32_t i = 0; i < graph.tensors.size(); ++i) {
    const Tensor& t = graph.tensors[i];
    if (t.role != Role::kInput) continue;
    std::vector<std::int32_t> data(static_cast<std::size_t>(t.type.bytes()) / sizeof(std::int32_t));
    for (std::size_t k = 0; k < data.size(); ++k) data[k] = static_cast<std::int32_t>(k * 37 % 4001);
    const Hyper hyper = hyper_at(1, 0.01, {.name = "adamw"});
    const bool is_hyper = t.name == kHyperInput;
    stepper.executor().write({i}, is_hyper ? static_cast<const void*>(hyper.data()) : data.data());
  }
}

// As the tuner does with every variant of a step.
TEST(TiedUpdateTraining, IsRehearsedWithoutAChange) {
  const TrainOptions options = tiled("vocab-loss,tied-update");
  const auto setup = make_setup(open_model(options.model), options);
  const Graph& graph = setup.program->graph;
  const auto arena = setup.device->make_arena(setup.plan.peak_bytes, false);
  Stepper stepper(setup.shape, setup.program, setup.plan, layout_of(setup.plan, graph), *setup.device, *arena, nullptr);
  for (std::uint32_t i = 0; i < graph.tensors.size(); ++i) {
    if (is_state(graph.tensors[i].role)) stepper.executor().write({i}, initial_value(graph.tensors[i], 0).data());
  }
  const TensorId table = *graph.find("wte.weight");
  const auto read = [&] {
    std::vector<std::byte> out(static_cast<std::size_t>(graph.at(table).type.bytes()));
    stepper.executor().read(table, out.data());
    return out;
  };
  const auto before = read();
  put_in(stepper);
  const auto promised = stepper.executor().rehearse(false);
  EXPECT_EQ(read(), before);
  put_in(stepper);
  EXPECT_EQ(stepper.executor().run_noted(false), promised);
  EXPECT_NE(read(), before);
}

// It saves bytes, not time; and what updates read is no longer what they read without it, so steps with and without it
// could not be compared.
TEST(TiedUpdateTraining, IsNotForTheClockToChoose) {
  TrainOptions options = plain("adaptive");
  options.steps = 1000;
  const auto setup = make_setup(open_model(options.model), options);
  const auto& nodes = setup.program->graph.nodes;
  EXPECT_TRUE(std::ranges::any_of(nodes, [](const Node& node) { return node.name == "wte.weight.update.rest0"; }));
  const auto chosen = tuner_options(options, setup);
  ASSERT_TRUE(chosen);
  for (const Optimization* each : chosen->library) EXPECT_NE(each->name, "tied-update");
  EXPECT_NE(settled_passes(options.optimize, chosen->library).find("tied-update"), std::string::npos);
}

}  // namespace
}  // namespace neap
