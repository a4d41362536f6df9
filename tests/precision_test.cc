// Storing activations in fewer bits, through the program.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/json_lines.h"
#include "tests/program.h"

namespace neap {
namespace {

constexpr const char* kRun = "train gpt-mini:width=64,layers=2,heads=2,vocab=32 --batch 2 --length 64 --json - ";

std::vector<Json> trained(const std::string& flags, const char* run = kRun) {
  const Outcome o = run_neap(run + flags);
  EXPECT_EQ(o.status, 0) << flags << "\n" << o.err;
  std::vector<Json> out = lines_of(o.out);
  if (out.empty()) out.push_back(Json::object());
  return out;
}

Json summary(const std::string& flags, const char* run = kRun) { return trained(flags, run).back(); }

double saved_share(const Json& s) { return s["saved_bytes"].get<double>() / s["exact_saved_bytes"].get<double>(); }

TEST(Precision, FixedLevelsTrainInFewerBytes) {
  const Json exact = summary("--steps 12 --policy store-all");
  EXPECT_DOUBLE_EQ(saved_share(exact), 1);
  const std::vector<std::pair<const char*, double>> shares = {{"bf16", 0.58}, {"int8", 0.36}, {"int4", 0.26}};
  for (const auto& [policy, share] : shares) {
    const std::vector<Json> lines = trained(std::string("--steps 12 --policy ") + policy);
    const Json& s = lines.back();
    EXPECT_LT(saved_share(s), share) << policy;
    EXPECT_LT(s["peak_bytes"], exact["peak_bytes"]) << policy;
    EXPECT_GT(lines.front()["encoded_bytes"], 0) << policy;
    EXPECT_NE(s["weights_hash"], exact["weights_hash"]) << policy;
    EXPECT_NEAR(s["loss_last"].get<double>(), exact["loss_last"].get<double>(), 0.1) << policy;
  }
}

TEST(Precision, ExactIsTheDefaultAndTheBitsOfStoreAll) {
  const Json exact = summary("--steps 6 --policy store-all");
  EXPECT_EQ(summary("--steps 6 --tolerance exact --budget min+20%")["weights_hash"], exact["weights_hash"]);
  EXPECT_EQ(summary("--steps 6")["weights_hash"], exact["weights_hash"]);
  EXPECT_TRUE(exact["stored"].empty());
}

TEST(Precision, TheSameSeedGivesTheSameBitsAndAnotherSeedOthers) {
  for (const char* flags : {"--policy int4 ", "--tolerance default ", "--tolerance default --budget 60% "}) {
    const Json first = summary(flags + std::string("--steps 10"));
    EXPECT_EQ(summary(flags + std::string("--steps 10"))["weights_hash"], first["weights_hash"]) << flags;
    EXPECT_NE(summary(flags + std::string("--steps 10 --seed 1"))["weights_hash"], first["weights_hash"]) << flags;
  }
}

TEST(Precision, AdaptiveLevelsStayWithinTheTargetAndTheBudget) {
  const Json loose = summary("--steps 12 --tolerance default");
  EXPECT_LE(loose["encoding_error"], 0.1);
  EXPECT_LT(saved_share(loose), 0.36);
  std::set<std::string> levels;
  for (const Json& t : loose["stored"]) levels.insert(t["level"]);
  EXPECT_TRUE(levels.contains("int4")) << loose["stored"].dump();
  const Json strict = summary("--steps 12 --tolerance 0.0005");
  EXPECT_LE(strict["encoding_error"], 0.0005);
  EXPECT_GT(strict["saved_bytes"], loose["saved_bytes"]);
  const Json tight = summary("--steps 12 --tolerance default --budget min+5%");
  EXPECT_EQ(tight["violations"], 0);
  EXPECT_LE(tight["peak_bytes"], tight["budget_bytes"]);
}

// Levels are chosen, and the budget has room for all of what they are of: nothing is rounded, and nothing else is said.
TEST(Precision, APlanThatEncodesNothingIsReportedAsExact) {
  const std::vector<Json> lines = trained("--steps 6 --tolerance default --budget 100%");
  const Json& s = lines.back();
  for (std::size_t i = 0; i + 1 < lines.size(); ++i) EXPECT_EQ(lines[i]["encoded_bytes"], 0);
  EXPECT_EQ(s["weights_hash"], summary("--steps 6")["weights_hash"]);
  EXPECT_EQ(s["encoding_error"], 0.0);
  EXPECT_FALSE(s["stored"].empty());
  for (const Json& t : s["stored"]) {
    EXPECT_EQ(t["level"], "fp32") << t;
    EXPECT_EQ(t["error"], 0.0) << t;
    EXPECT_GT(t["entropy"], 0.0) << "it is profiled all the same";
  }
}

// Encoded tensors are what is spilled: a quarter of the bytes, and the group's scales.
TEST(Precision, WhatIsSpilledIsEncoded) {
  const auto bytes = [](const std::string& flags) {
    return trained("--steps 3 --policy spill --budget min+5% " + flags).front()["spilled_bytes"].get<double>();
  };
  const double exact = bytes("");
  ASSERT_GT(exact, 0);
  EXPECT_LT(bytes("--tolerance default"), 0.5 * exact);
}

TEST(Precision, SettingsReachTheRun) {
  const Json table = summary("--steps 6 --tolerance default --precision-choice table --precision-table norm=bf16");
  std::set<std::string> levels;
  for (const Json& t : table["stored"]) levels.insert(t["level"]);
  EXPECT_TRUE(levels.contains("bf16"));
  const Json few = summary("--steps 6 --tolerance default --precision-levels fp32,bf16 --default_precision bf16");
  for (const Json& t : few["stored"]) EXPECT_TRUE(t["level"] == "bf16" || t["level"] == "fp32") << t;
  const Json flow = summary("--steps 6 --tolerance default --flow-quantized");
  EXPECT_NE(flow["weights_hash"], summary("--steps 6 --tolerance default")["weights_hash"]);
  const ScratchFolder folder;
  write_text(folder / "config", "target_accuracy = 0.02\nprofiling_window = 2\nprofiling_granularity = \"1,4\"\n");
  EXPECT_LE(summary("--steps 6 --config " + (folder / "config"))["encoding_error"], 0.02);
}

TEST(Precision, PlansSayEachLayersLevel) {
  const Outcome o =
      run_neap("plan gpt-mini:width=64,layers=2,heads=2,vocab=32 --batch 2 --length 64 --tolerance default --json -");
  ASSERT_EQ(o.status, 0) << o.err;
  const Json plan = Json::parse(o.out);
  int encoded = 0;
  for (const Json& l : plan["layers"]) {
    const bool is_encoded = l["precision"].get<std::string>().find("int8") != std::string::npos;
    encoded += is_encoded;
    EXPECT_EQ(l["error"].get<double>() > 0, is_encoded) << l;
  }
  EXPECT_GT(encoded, 1) << plan["layers"].dump();
}

TEST(Precision, BadSettingsEndInOneLine) {
  for (const char* flags :
       {"--tolerance 0", "--tolerance -1", "--tolerance nan", "--tolerance inf", "--tolerance some", "--tolerance ''",
        "--policy int3", "--tolerance default --precision-levels ''", "--tolerance default --precision-levels int3",
        "--tolerance default --precision-levels fp32,,int8", "--tolerance default --default-precision int2",
        "--tolerance default --profiling-window 0", "--tolerance default --profiling-granularity 0",
        "--tolerance default --profiling-granularity 1,0", "--tolerance default --profiling-granularity x",
        "--tolerance default --precision-choice other",
        "--tolerance default --precision-choice table --precision-table norm=int9",
        "--tolerance default --precision-choice table --precision-table what=int8"}) {
    const Outcome o = run_neap(kRun + std::string("--steps 1 ") + flags);
    EXPECT_EQ(o.status, 2) << flags;
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << flags << "\n" << o.err;
  }
}

}  // namespace
}  // namespace neap
