// Whole runs through the program: JSON, determinism, resuming, weights out and in.
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/program.h"

namespace neap {
namespace {

using Json = nlohmann::json;

std::vector<Json> lines_of(const std::string& text) {
  std::vector<Json> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(Json::parse(line));
  return out;
}

Json summary_of(const std::string& arguments) {
  const Outcome o = run_neap(arguments + " --json -");
  EXPECT_EQ(o.status, 0) << arguments << "\n" << o.err;
  return o.status == 0 ? lines_of(o.out).back() : Json::object();
}

constexpr const char* kTiny = "train cnn --data fashion-mnist --batch 16 --steps 6 --seed 3";

TEST(Training, WritesTheJsonThatScriptsRelyOn) {
  const Outcome o = run_neap(std::string(kTiny) + " --json -");
  ASSERT_EQ(o.status, 0) << o.err;
  const auto lines = lines_of(o.out);
  ASSERT_EQ(lines.size(), 7U);
  for (const char* key : {"step", "loss", "loss_hex", "step_ms", "peak_bytes", "budget_bytes", "spilled_bytes",
                          "recomputed_ms", "encoded_bytes"}) {
    EXPECT_TRUE(lines[0].contains(key)) << key;
  }
  const Json& s = lines.back();
  for (const char* key : {"summary",         "model",          "device",           "policy",
                          "steps",           "batch",          "budget_bytes",     "peak_bytes",
                          "store_all_bytes", "state_bytes",    "min_budget_bytes", "violations",
                          "median_step_ms",  "steering_share", "rss_peak_bytes",   "planning_ms",
                          "numerics_id",     "context_bytes",  "loss_last",        "weights_hash"}) {
    EXPECT_TRUE(s.contains(key)) << key;
  }
  EXPECT_EQ(s["steps"], 6);
  EXPECT_TRUE(s["budget_bytes"].is_null());
  EXPECT_EQ(s["peak_bytes"], s["store_all_bytes"]);
}

TEST(Training, SameSeedSameBitsOtherSeedOtherBits) {
  const Json a = summary_of(kTiny);
  const Json b = summary_of(kTiny);
  const Json c = summary_of("train cnn --data fashion-mnist --batch 16 --steps 6 --seed 4");
  EXPECT_EQ(a["weights_hash"], b["weights_hash"]);
  EXPECT_NE(a["weights_hash"], c["weights_hash"]);
}

TEST(Training, ResumeGivesTheBitsOfAnUnbrokenRun) {
  const ScratchFolder folder;
  const Json whole = summary_of("train cnn --data fashion-mnist --batch 16 --steps 10 --schedule cosine");
  const std::string run =
      "train cnn --data fashion-mnist --batch 16 --schedule cosine --checkpoint-every 3 --checkpoint " +
      (folder / "run");
  // Killed at the eighth second at the latest, somewhere behind a checkpoint.
  const Outcome killed =
      run_neap(run + " --steps 10 --json - | (head -n 7 >/dev/null; pkill -9 -f '" + (folder / "run") + "')");
  (void)killed;
  const Json resumed = summary_of(run + " --steps 10 --resume");
  EXPECT_EQ(resumed["weights_hash"], whole["weights_hash"]);
}

TEST(Training, WeightsGoOutAndComeBack) {
  const ScratchFolder folder;
  const Json saved = summary_of(std::string(kTiny) + " --save " + (folder / "w.safetensors"));
  const Json loaded =
      summary_of("train cnn --data fashion-mnist --batch 16 --steps 0 --init " + (folder / "w.safetensors"));
  EXPECT_EQ(saved["weights_hash"], loaded["weights_hash"]);
}

TEST(Training, FrozenLayersStayAndTakeNoGradient) {
  const ScratchFolder folder;
  const Json all = summary_of(std::string(kTiny));
  const Json frozen = summary_of(std::string(kTiny) + " --freeze 'conv*' --freeze 'bn*' --bn frozen --save " +
                                 (folder / "w.safetensors"));
  EXPECT_LT(frozen["peak_bytes"].get<std::int64_t>() - frozen["state_bytes"].get<std::int64_t>(),
            all["peak_bytes"].get<std::int64_t>() - all["state_bytes"].get<std::int64_t>());
  EXPECT_LT(frozen["state_bytes"], all["state_bytes"]);  // no moments for what is not trained
}

// What leaves the arena comes back to the same bits: from the disk, from RAM, from a slow disk, and when bytes are
// lost.
TEST(Training, SpillingChangesNoBit) {
  const std::string run = "train lstm-lm:hidden=128,vocab=64 --batch 16 --length 64 --steps 5";
  const Json stored = summary_of(run + " --policy store-all");
  for (const char* how :
       {"--budget 75%", "--budget min", "--budget 75% --host-ram 64MiB", "--budget 75% --host-ram 1MiB",
        "--budget 75% --spill-write-rate 2e8 --spill-read-rate 2e8", "--budget 95% --spill-fault corrupt-read:3"}) {
    const Json spilled = summary_of(run + " --policy spill " + how);
    ASSERT_TRUE(spilled.contains("weights_hash")) << how;
    EXPECT_EQ(spilled["weights_hash"], stored["weights_hash"]) << how;
    EXPECT_EQ(spilled["violations"], 0) << how;
    EXPECT_LE(spilled["peak_bytes"], spilled["budget_bytes"]) << how;
    EXPECT_LT(spilled["peak_bytes"], stored["peak_bytes"]) << how;
  }
}

TEST(Training, EveryModelTrainsOnSyntheticData) {
  for (const char* model : {"mlp", "cnn", "resnet20 --batch 4", "resnet18 --batch 2 --image 32",
                            "resnet50 --batch 2 --image 64", "gpt-mini --batch 1 --length 32",
                            "bert-mini --batch 2 --length 32", "gpt2:layers=2,vocab=512 --batch 1 --length 32",
                            "lstm-lm --batch 2 --length 40", "gru-lm --batch 2 --length 40"}) {
    const Json s = summary_of(std::string("train ") + model + " --steps 2");
    EXPECT_TRUE(s["loss_last"].is_number()) << model;
    EXPECT_EQ(s["peak_bytes"], s["store_all_bytes"]) << model;
  }
}

}  // namespace
}  // namespace neap
