// `neap infer` as a user calls it.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/json_lines.h"
#include "tests/program.h"

namespace neap {
namespace {

// The last line of what it printed.
Json last_of(const Outcome& o) {
  EXPECT_EQ(o.status, 0) << o.err;
  const std::vector<Json> lines = lines_of(o.out);
  return lines.empty() ? Json() : lines.back();
}

Json inferred(const std::string& arguments) { return last_of(run_neap("infer " + arguments + " --json -")); }

// The evaluation at the end of training and inference from its checkpoint or weights are the same pass.
TEST(InferProgram, GivesWhatTrainingsEvaluationGave) {
  const std::string run = "mlp:hidden=32 --data fashion-mnist --batch 64 ";
  const ScratchFolder folder;
  const Outcome trained = run_neap("train " + run + "--steps 30 --eval test --json - --checkpoint " + (folder / "c") +
                                   " --save " + (folder / "w.safetensors"));
  ASSERT_EQ(trained.status, 0) << trained.err;
  Json eval;
  for (const Json& line : lines_of(trained.out)) {
    if (line.contains("accuracy") && !line["accuracy"].is_null()) eval = line;
  }
  ASSERT_FALSE(eval.is_null());
  const Json a = inferred(run + "--checkpoint " + (folder / "c"));
  const Json b = inferred(run + "--init " + (folder / "w.safetensors"));
  EXPECT_EQ(a["loss"], eval["loss"]);
  EXPECT_EQ(a["accuracy"], eval["accuracy"]);
  EXPECT_EQ(a["samples"], 10000);
  EXPECT_EQ(b["loss"], a["loss"]);
  EXPECT_EQ(b["weights"], folder / "w.safetensors");
  EXPECT_GT(a["accuracy"], 0.5);
  EXPECT_GT(a["median_batch_ms"], 0);
}

TEST(InferProgram, StaysBelowTheBudgetWithTheSameResult) {
  const std::string run = "gpt-mini:layers=2 --batch 2 --length 32 --samples 5 ";
  const Json all = inferred(run);
  const Json least = inferred(run + "--budget min");
  EXPECT_EQ(all["weights"], "initial");
  EXPECT_EQ(all["samples"], 5);
  EXPECT_TRUE(all["budget_bytes"].is_null());
  EXPECT_EQ(least["budget_bytes"], all["min_budget_bytes"]);
  EXPECT_LE(least["peak_bytes"], least["budget_bytes"]);
  EXPECT_EQ(least["loss"], all["loss"]);
  EXPECT_EQ(inferred(run + "--optimize off")["loss"], all["loss"]);
  const Outcome too_small = run_neap("infer " + run + "--budget 1KiB");
  EXPECT_EQ(too_small.status, 3);
  EXPECT_NE(too_small.err.find("minimum of inference"), std::string::npos) << too_small.err;
}

// An agent chooses how recurrent layers run there too; what remains at the end is a smaller batch.
TEST(InferProgram, RunsRecurrentModels) {
  const std::string run = "lstm-lm:hidden=32 --batch 4 --length 16 --samples 10 ";
  const Json adaptive = inferred(run);
  EXPECT_EQ(adaptive["samples"], 10);
  EXPECT_GT(adaptive["perplexity"], 1);
  EXPECT_EQ(inferred(run + "--recurrent whole")["loss"], adaptive["loss"]);
}

// Weights of a quarter of the bytes, and nearly the same answers.
TEST(InferProgram, ComputesInEightBitsByName) {
  const std::string run = "cnn --data fashion-mnist --batch 64 ";
  const ScratchFolder folder;
  ASSERT_EQ(run_neap("train " + run + "--steps 40 --checkpoint " + (folder / "c")).status, 0);
  const std::string from = run + "--samples 2000 --checkpoint " + (folder / "c");
  const Json exact = inferred(from);
  const Json small = inferred(from + " --optimize int8");
  EXPECT_GT(exact["accuracy"], 0.6);
  EXPECT_NEAR(small["accuracy"], exact["accuracy"], 0.005);
  EXPECT_NE(small["loss"], exact["loss"]);
  EXPECT_LT(small["state_bytes"], 0.3 * exact["state_bytes"].get<double>());
  EXPECT_NE(small["numerics_id"], exact["numerics_id"]);
  EXPECT_EQ(inferred(from + " --optimize int8 --threads 1")["loss"], small["loss"]);
  EXPECT_EQ(inferred(from + " --optimize int8 --budget min")["loss"], small["loss"]);
  const Outcome training = run_neap("train mlp --steps 1 --optimize int8");
  EXPECT_EQ(training.status, 2);
  EXPECT_NE(training.err.find("--policy int8"), std::string::npos) << training.err;
}

// A pruned run's checkpoint holds its zeros and its mask; inference skips them with the same answers.
TEST(InferProgram, SkipsPrunedWeights) {
  const std::string run = "mlp:hidden=64 --data fashion-mnist --batch 64 ";
  const ScratchFolder folder;
  ASSERT_EQ(run_neap("train " + run + "--steps 40 --prune 2:4,from=20 --checkpoint " + (folder / "c")).status, 0);
  const std::string from = run + "--samples 1000 --checkpoint " + (folder / "c");
  const Json trained = inferred(from);
  const Json dense = inferred(from + " --prune 2:4 --optimize off");
  const Json sparse = inferred(from + " --prune 2:4");
  EXPECT_EQ(dense["loss"], trained["loss"]);
  EXPECT_NEAR(sparse["loss"], trained["loss"], 1e-5);
  EXPECT_LT(sparse["state_bytes"], 0.65 * trained["state_bytes"].get<double>());
  EXPECT_GT(sparse["accuracy"], 0.5);
  const Json listed = inferred(from + " --prune 0.9");
  EXPECT_NEAR(listed["loss"], inferred(from + " --prune 0.9 --optimize off")["loss"], 1e-5);
  EXPECT_LT(listed["state_bytes"], 0.3 * trained["state_bytes"].get<double>());
  EXPECT_EQ(run_neap("infer mlp --prune 5:4").status, 2);
}

TEST(InferProgram, TellsPeople) {
  const Outcome o = run_neap("infer mlp:hidden=16 --batch 4 --samples 8");
  EXPECT_EQ(o.status, 0) << o.err;
  for (const char* word : {"weights: initial", "loss ", "accuracy ", "(8 samples)", "samples/s", "peak "}) {
    EXPECT_NE(o.out.find(word), std::string::npos) << word << " in\n" << o.out;
  }
}

TEST(InferProgram, RefusesWhatMakesNoSense) {
  const ScratchFolder folder;
  ASSERT_EQ(run_neap("train mlp:hidden=32 --batch 4 --steps 1 --checkpoint " + (folder / "c")).status, 0);
  const auto refused = [&](const std::string& arguments, const std::string& word) {
    const Outcome o = run_neap("infer " + arguments);
    EXPECT_EQ(o.status, 2) << arguments;
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
    EXPECT_NE(o.err.find(word), std::string::npos) << o.err;
  };
  refused("mlp --checkpoint " + (folder / "none"), "none");
  refused("mlp:hidden=16 --checkpoint " + (folder / "c"), "mlp");
  refused("gpt-mini --checkpoint " + (folder / "c"), "'mlp:hidden=32'");
  refused("mlp --checkpoint " + (folder / "c") + " --init w.safetensors", "contradict");
  refused("mlp --init " + (folder / "w.safetensors"), "w.safetensors");
  refused("mlp --split some", "some");
  refused("mlp --samples 0", "--samples");
  refused("mlp --data nowhere.npz", "nowhere.npz");
  refused("mlp --device null", "--device null");
  refused("mlp --policy spill", "--budget alone");
}

}  // namespace
}  // namespace neap
