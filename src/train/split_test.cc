// Batches whose parts take turns within a step.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "core/file_testing.h"
#include "core/random.h"
#include "graph/op.h"
#include "neap/builtin_models.h"
#include "neap/error.h"
#include "neap/layers.h"
#include "neap/recurrent.h"
#include "neap/train.h"
#include "ops/has_kernel.h"
#include "train/model_spec.h"
#include "train/parts.h"
#include "train/resume_testing.h"
#include "train/safetensors.h"

namespace neap {
namespace {

struct Case {
  const char* model;
  std::int64_t batch = 8;
  std::int64_t image = 0;
  std::int64_t length = 0;
  // A ReLU whose input is zero within rounding goes one way or the other, and deep networks without much data make
  // much of it: behind this step two ways to round are two runs.
  std::size_t last = 20;
};

const Case kCases[] = {{.model = "mlp:hidden=64"},
                       {.model = "cnn:dropout=0", .image = 12},
                       {.model = "resnet20", .image = 16, .last = 6},
                       {.model = "gpt-mini:layers=2,width=32,heads=2", .length = 16},
                       {.model = "bert-mini:layers=2,width=32,heads=2,vocab=64", .length = 16},
                       {.model = "lstm-lm:hidden=32,vocab=64", .length = 32}};

TrainOptions options_for(const Case& c, std::int64_t split, std::int64_t steps = 20) {
  TrainOptions out{
      .steps = steps, .batch = c.batch, .split = split, .length = c.length, .image = c.image, .threads = 1};
  out.model = c.model;
  out.data = "synthetic";
  out.optimizer = {.name = "sgd", .lr = 0.001};
  out.synchronous_planning = true;
  return out;
}

struct Record {
  std::vector<float> losses;
  Summary summary;
};

Record run(const TrainOptions& options) {
  Trainer trainer(open_builtin_model(options.model), options);
  Record out;
  for (std::int64_t i = 0; i < options.steps; ++i) out.losses.push_back(trainer.advance().loss);
  out.summary = trainer.summary();
  return out;
}

TEST(SplitTraining, LearnsWhatTheWholeBatchDoes) {
  for (const Case& c : kCases) {
    const Record whole = run(options_for(c, 1));
    const Record cut = run(options_for(c, 4));
    EXPECT_EQ(cut.summary.batch, c.batch);
    EXPECT_EQ(cut.summary.split, 4);
    for (std::size_t i = 0; i < c.last; ++i) {
      EXPECT_NEAR(cut.losses[i], whole.losses[i], 1e-5 * std::abs(whole.losses[i])) << c.model << " step " << i + 1;
    }
    // The tolerance means something: another step size is seen.
    TrainOptions other = options_for(c, 4);
    other.optimizer.lr *= 1.5;
    const float off = run(other).losses[c.last - 1];
    EXPECT_GT(std::abs(off - whole.losses[c.last - 1]), 2e-5 * std::abs(off)) << c.model;
  }
}

// Weights and running statistics, by name, before and behind the first step.
struct FirstStep {
  std::map<std::string, std::vector<float>> before, behind;
};

FirstStep first_step(const TrainOptions& options) {
  const testing::TempDir folder;
  const std::string path = folder / "weights.safetensors";
  Trainer trainer(open_builtin_model(options.model), options);
  const auto saved = [&] {
    trainer.save(path);
    const SafeTensorsFile file(path);
    std::map<std::string, std::vector<float>> out;
    for (const SafeTensor& t : file.tensors()) {
      const auto* values = reinterpret_cast<const float*>(t.data.data());
      out[t.name].assign(values, values + t.data.size() / sizeof(float));
    }
    return out;
  };
  FirstStep out{.before = saved(), .behind = {}};
  trainer.advance();
  out.behind = saved();
  return out;
}

// What training makes of rounding shows nothing here (decision 0020), so every number that the first step changes is
// compared: by how much, relative to the most that its tensor changes.
TEST(SplitTraining, TheFirstStepIsThatOfTheWholeBatch) {
  for (const char* model : {"resnet20", "cnn:dropout=0"}) {
    for (const std::int64_t split : {2, 8}) {
      TrainOptions options = options_for({.model = model, .image = 16}, 1);
      // So large a step that a weight's own last bit is nothing beside it.
      options.optimizer = {.name = "sgd", .lr = 1e4, .momentum = 0, .weight_decay = 0};
      const FirstStep whole = first_step(options);
      options.split = split;
      const FirstStep cut = first_step(options);
      for (const auto& [name, behind] : whole.behind) {
        const std::vector<float>& other = cut.behind.at(name);
        const std::vector<float>& before = whole.before.at(name);
        double change = 0;
        double off = 0;
        for (std::size_t i = 0; i < behind.size(); ++i) {
          change = std::max(change, std::abs(static_cast<double>(behind[i]) - before[i]));
          off = std::max(off, std::abs(static_cast<double>(behind[i]) - other[i]));
        }
        ASSERT_GT(change, 0) << name;
        EXPECT_LE(off, 1e-5 * change) << model << " " << name << " in " << split;
      }
    }
  }
}

// Recomputation, spilling and fetching again change no bit.
TEST(SplitTraining, AtTheMinimumToTheBit) {
  for (const Case& c : kCases) {
    const TrainOptions stored = options_for(c, 4, 2);
    const Record all = run(stored);
    TrainOptions least = stored;
    least.budget = "min";
    least.host_ram = 64 << 20;
    const Record small = run(least);
    EXPECT_EQ(small.summary.weights_hash, all.summary.weights_hash) << c.model;
    EXPECT_EQ(small.losses, all.losses) << c.model;
    EXPECT_EQ(small.summary.violations, 0) << c.model;
    EXPECT_LE(small.summary.peak_bytes, all.summary.peak_bytes) << c.model;
  }
}

TEST(SplitTraining, FewerBitsKeepTheMinimum) {
  for (const std::int64_t split : {1, 4}) {
    TrainOptions options = options_for({.model = "lstm-lm:hidden=64,vocab=64", .batch = 8, .length = 32}, split, 1);
    options.budget = "min";
    options.host_ram = 64 << 20;
    options.precision.tolerance = "default";
    const Summary summary = run(options).summary;
    EXPECT_EQ(summary.violations, 0);
    EXPECT_LE(summary.peak_bytes, summary.min_budget_bytes);
  }
}

TEST(SplitTraining, GoesOnToTheSameBits) {
  TrainOptions options = options_for({.model = "lstm-lm:hidden=32,vocab=64", .batch = 4, .length = 32}, 2, 4);
  options.carry_state = true;
  testing::expect_same_bits_resumed(options);
}

TEST(SplitTraining, StateIsCarriedPartByPart) {
  TrainOptions whole = options_for({.model = "lstm-lm:hidden=32,vocab=64", .batch = 4, .length = 32}, 1, 6);
  whole.carry_state = true;
  TrainOptions cut = whole;
  cut.split = 2;
  const Record a = run(whole);
  const Record b = run(cut);
  for (std::size_t i = 0; i < a.losses.size(); ++i) EXPECT_NEAR(b.losses[i], a.losses[i], 1e-5 * a.losses[i]);
}

TEST(SplitTraining, GoesTogetherWithAccumulation) {
  const Case c = {.model = "mlp:hidden=64"};
  TrainOptions both = options_for(c, 2);
  both.accumulate = 2;
  const Record a = run(options_for(c, 1));
  const Record b = run(both);
  EXPECT_EQ(b.summary.batch, c.batch);
  EXPECT_NEAR(b.losses.front(), a.losses.front(), 1e-5 * a.losses.front());
}

std::int64_t least_bytes(TrainOptions options, std::int64_t split) {
  options.split = split;
  return plan_training(open_builtin_model(options.model), options).min_budget_bytes;
}

TEST(SplitTraining, AutoTakesTheFewestPartsThatTheBudgetNeeds) {
  TrainOptions options = options_for({.model = "gpt-mini:layers=2,width=64,heads=2", .batch = 8, .length = 64}, 0);
  const auto model = open_builtin_model(options.model);
  ASSERT_LT(least_bytes(options, 2), least_bytes(options, 1));
  ASSERT_LT(least_bytes(options, 4), least_bytes(options, 2));
  const auto taken = [&](std::int64_t budget) {
    options.budget = std::to_string(budget);
    return with_settled_parts(model, options).split;
  };
  EXPECT_EQ(taken(least_bytes(options, 1)), 1);
  EXPECT_EQ(taken(least_bytes(options, 1) - 1), 2);
  EXPECT_EQ(taken(least_bytes(options, 2) - 1), 4);
}

TEST(SplitTraining, FitFindsThePartsThatAllowTheLargestBatch) {
  TrainOptions options{.model = "gpt-mini:layers=2,width=32,heads=2,vocab=64", .length = 32};
  options.budget = "1MiB";
  const auto model = open_builtin_model(options.model);
  const auto largest = [&](std::int64_t split) {
    options.split = split;
    return fit_training(model, options, "batch").largest;
  };
  options.split = 0;
  const FitReport found = fit_training(model, options, "batch");
  EXPECT_GT(found.split, 1);
  EXPECT_EQ(found.largest, largest(found.split));
  for (const std::int64_t split : {std::int64_t{1}, found.split / 2}) EXPECT_LT(largest(split), found.largest) << split;
  EXPECT_LE(found.min_budget_bytes, 1 << 20);
  EXPECT_GT(found.next_bytes, 1 << 20);
  options.split = found.split;
  options.batch = found.largest;
  options.steps = 1;
  options.spill_dir = "/tmp";
  EXPECT_LE(run(options).summary.peak_bytes, 1 << 20);
}

// Parts divide the batch, whose size is given.
TEST(SplitTraining, FitForALengthKeepsTheBatch) {
  TrainOptions options{.model = "gpt-mini:layers=2,width=32,heads=2,vocab=64,context=4096", .batch = 3, .length = 32};
  options.budget = "4MiB";
  options.split = 0;
  const auto model = open_builtin_model(options.model);
  EXPECT_EQ(fit_training(model, options, "length").split, 3);
  options.batch = 4;
  EXPECT_GT(fit_training(model, options, "length").split, 1);
  options.batch = 6;  // 4 does not divide it, 6 does
  EXPECT_EQ(fit_training(model, options, "length").split, 6);
}

// At the minimum gradients leave the arena, and writes go on behind the first changed weight.
TEST(SplitTraining, AWriteThatFailsBehindAChangeIsTriedAgain) {
  TrainOptions options = options_for({.model = "resnet20", .batch = 16, .image = 32}, 4, 1);
  options.optimizer.name = "adamw";
  options.budget = "min";
  options.spill_dir = "/tmp";
  const Record whole = run(options);
  for (const int nth : {150, 200}) {
    // Once; at one place in the file, so that another must be found; for a while.
    for (const std::string& fault :
         {fmt::format("fail-write:{}", nth), fmt::format("bad:0@{}", nth), fmt::format("full:0@{}-{}", nth, nth + 4)}) {
      options.spill_fault = fault;
      const Record again = run(options);
      EXPECT_EQ(again.summary.weights_hash, whole.summary.weights_hash) << fault;
      EXPECT_EQ(again.summary.violations, 0);
    }
  }
}

TEST(SplitTraining, RefusesWhatMakesNoSense) {
  const auto model = open_builtin_model("mlp:hidden=64");
  const auto refused = [&](const std::function<void(TrainOptions&)>& change) {
    TrainOptions options = options_for(kCases[0], 1);
    change(options);
    try {
      plan_training(model, options);
    } catch (const UserError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_NE(refused([](TrainOptions& o) { o.split = 3; }).find("--split 3"), std::string::npos);
  EXPECT_NE(refused([](TrainOptions& o) {
              o.split = 0;
              o.budget = "25%";
            }).find("--split auto"),
            std::string::npos);
  EXPECT_NE(refused([](TrainOptions& o) { o.split = o.accumulate = 0; }).find("--split auto"), std::string::npos);
}

TEST(SplitTraining, AdviceNamesTheParts) {
  TrainOptions options = options_for({.model = "gpt-mini:layers=2,width=64,heads=2", .batch = 8, .length = 64}, 1);
  options.budget = std::to_string(least_bytes(options, 2));
  const auto model = open_builtin_model(options.model);
  std::string all;
  for (const std::string& line : advise(model, options, plan_training(model, options))) all += line + "\n";
  EXPECT_NE(all.find("(--split 2)"), std::string::npos) << all;
}

std::map<std::string, int> ops_on_cuda(const TrainOptions& options) {
  const Graph graph = build_training(make_spec(open_builtin_model(options.model), options), options);
  std::map<std::string, int> count;
  for (const Node& node : graph.nodes) {
    ++count[std::string(node.op->name)];
    const bool is_view = node.op->view_offset != nullptr && node.op->view_offset(call_of(graph, node)).has_value();
    EXPECT_TRUE(is_view || has_kernel(*node.op, DeviceKind::kCuda)) << options.model << ": " << node.op->name;
  }
  return count;
}

// Needs no GPU: what a GPU would be given, op by op.
TEST(SplitTraining, AGpuHasKernelsForIt) {
  for (const std::string compute : {"f32", "tf32", "bf16"}) {
    for (const std::int64_t split : {1, 4}) {
      for (const Case& c : kCases) {
        TrainOptions options = options_for(c, split);
        options.device = "cuda";
        options.compute = compute;
        auto count = ops_on_cuda(options);
        if (split == 1 || std::string_view(c.model) != "resnet20") continue;
        EXPECT_GT(count["merge_moments"], 0) << compute;
        EXPECT_EQ(count["batch_stats"], 0) << compute;
        EXPECT_GT(count["conv_add_weight"], 0) << compute;
      }
    }
  }
}

// What a step needs beyond its state, with every means and with recomputation alone.
double share_left(const Case& c, std::int64_t split) {
  TrainOptions options = options_for(c, 1);
  options.optimizer.name = "adamw";
  const auto model = open_builtin_model(options.model);
  const PlanReport alone = plan_training(model, options);
  options.split = split;
  options.spill_dir = "/tmp";
  const PlanReport all = plan_training(model, options);
  return static_cast<double>(all.min_budget_bytes - all.state_bytes) /
         static_cast<double>(alone.min_budget_bytes - alone.state_bytes);
}

TEST(SplitTraining, HalvesTheLeastThatAStepNeeds) {
  EXPECT_LE(share_left({.model = "resnet20", .batch = 16, .image = 32}, 4), 0.5);
  EXPECT_LE(share_left({.model = "gpt-mini:layers=2,width=64,heads=2", .batch = 8, .length = 64}, 8), 0.5);
  EXPECT_LE(share_left({.model = "bert-mini:layers=2,width=64,heads=2,vocab=256", .batch = 8, .length = 64}, 8), 0.5);
  EXPECT_LE(share_left({.model = "lstm-lm:hidden=64,vocab=64", .batch = 16, .length = 64}, 8), 0.5);
}

}  // namespace
}  // namespace neap
