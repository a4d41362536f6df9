// Whole runs through the program: JSON, determinism, resuming, weights out and in.
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/json_lines.h"
#include "tests/program.h"

namespace neap {
namespace {

Json summary_of(const std::string& arguments) {
  const Outcome o = run_neap(arguments + " --json -");
  EXPECT_EQ(o.status, 0) << arguments << "\n" << o.err;
  return o.status == 0 ? lines_of(o.out).back() : Json::object();
}

// Ends the run with SIGKILL once it has written so many lines. `true` takes the redirections of run_neap().
void kill_after(int lines, const std::string& arguments, const ScratchFolder& folder) {
  const std::string pid = folder / "pid";
  const std::string read = "head -n " + std::to_string(lines) + " >/dev/null";
  run_neap(arguments + " --json - | (" + read + "; kill -9 $(cat " + pid + ")); true",
           "sh -c 'echo $$ >" + pid + "; exec \"$@\"' sh");
}

constexpr const char* kTiny = "train cnn --data fashion-mnist --batch 16 --steps 6 --seed 3";

TEST(Training, WritesTheJsonThatScriptsRelyOn) {
  const Outcome o = run_neap(std::string(kTiny) + " --json -");
  ASSERT_EQ(o.status, 0) << o.err;
  const auto lines = lines_of(o.out);
  ASSERT_EQ(lines.size(), 7U);
  for (const char* key : {"step", "loss", "loss_hex", "step_ms", "length", "tokens", "peak_bytes", "budget_bytes",
                          "spilled_bytes", "recomputed_ms", "encoded_bytes"}) {
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

// What the simulator says of a step's memory before it runs is what the step then takes, to the byte.
TEST(Training, TheSimulatedPeakIsTheMeasuredOne) {
  const Outcome o = run_neap("train cnn --data fashion-mnist --batch 16 --steps 10 --seed 3 --budget 80% --json -");
  ASSERT_EQ(o.status, 0) << o.err;
  int compared = 0;
  for (const Json& line : lines_of(o.out)) {
    if (line.contains("summary") || line["simulated_peak_bytes"] == 0) continue;
    ++compared;
    EXPECT_EQ(line["simulated_peak_bytes"], line["peak_bytes"]) << line["step"];
  }
  EXPECT_GE(compared, 5);
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
  kill_after(7, run + " --steps 10", folder);
  ASSERT_TRUE(std::filesystem::exists(folder / "run/checkpoint.safetensors"));
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

// As a user would: another budget from another terminal.
TEST(Training, ObeysBudgetsWhileItRuns) {
  const ScratchFolder folder;
  const std::string run = "train lstm-lm:hidden=128,vocab=64 --batch 16 --length 64 --policy spill --steps 4000";
  const std::string json = folder / "run.json";
  const std::string script = folder / "tell.sh";
  // Waits for steps, not for seconds: the machine may be busy.
  write_text(script,
             "pid=$1\n"
             "tell() { " NEAP_PROGRAM
             " budget $pid $1; echo $? $1; }\n"
             "lines() { wc -l < " +
                 json +
                 "; }\n"
                 "steps() { end=$(($(lines) + $1)); until [ $(lines) -ge $end ]; do sleep 0.02; kill -0 $pid || exit "
                 "1; done; }\n"
                 "until " NEAP_PROGRAM
                 " budget $pid 100% 2>/dev/null; do sleep 0.02; kill -0 $pid || exit 1; done\n"
                 "steps 3; tell min+5%; tell lots; steps 3; tell 1KiB; steps 3; tell 100%; steps 8\n"
                 "kill -TERM $pid\n");
  const std::string said = folder / "err";
  const Outcome o =
      run_neap(run + " --json - >" + json + " 2>" + said + " & pid=$!; sh " + script + " $pid; wait $pid");
  ASSERT_EQ(o.status, 0) << read_file(said);
  EXPECT_NE(read_file(said).find("training goes on at the minimum"), std::string::npos) << read_file(said);
  const auto lines = lines_of(read_file(json));
  const Json& summary = lines.back();
  EXPECT_EQ(summary["violations"], 0);
  EXPECT_GT(lines.size(), 10U);
  bool was_small = false;
  for (const Json& line : lines) {
    if (line.contains("summary") || line["budget_bytes"].is_null()) continue;
    EXPECT_LE(line["peak_bytes"], line["budget_bytes"]);
    was_small |= line["peak_bytes"] <= summary["min_budget_bytes"];
  }
  EXPECT_TRUE(was_small);
  EXPECT_EQ(lines[lines.size() - 2]["peak_bytes"], summary["store_all_bytes"]);
}

TEST(Training, VaryingLengthsResumeAfterAKill) {
  const ScratchFolder folder;
  std::string text;
  for (int i = 0; i < 400; ++i) text += std::string(static_cast<std::size_t>(3 + i * i % 90), 'a' + i % 26) + "\n";
  write_text(folder / "t.txt", text);
  const std::string run =
      "train gru-lm:hidden=32 --batch 4 --length 96 --lengths varying --steps 40 --data " + (folder / "t.txt");
  const Json whole = summary_of(run);
  const std::string kept = " --checkpoint-every 3 --checkpoint " + (folder / "run");
  kill_after(11, run + kept, folder);
  ASSERT_TRUE(std::filesystem::exists(folder / "run/checkpoint.safetensors"));
  const Json resumed = summary_of(run + kept + " --resume");
  EXPECT_EQ(resumed["weights_hash"], whole["weights_hash"]);
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
