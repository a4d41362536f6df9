// Optimizations chosen while `neap train` runs: what it says of them, and that they change no result.
#include <gtest/gtest.h>

#include "tests/json_lines.h"
#include "tests/program.h"

namespace neap {
namespace {

// Dropout and residuals make chains that can be fused, of 512 KiB a tensor.
const std::string kRun = "train gpt-mini:width=64,layers=1,heads=2,dropout=0.1 --steps 40 --json - ";

std::vector<Json> lines(const std::string& arguments) {
  const Outcome o = run_neap(kRun + arguments);
  EXPECT_EQ(o.status, 0) << o.err;
  return lines_of(o.out);
}

int reasons_in(const std::vector<Json>& run) {
  int out = 0;
  for (const Json& step : run) {
    if (step.contains("step")) out += static_cast<int>(step.value("tuning", Json::array()).size());
  }
  return out;
}

TEST(TuningProgram, SaysWhatItTriedAndKeepsTheBits) {
  const auto tune = [] {
    return lines(
        "--trial-share 1 --synchronous-planning --rl-training-epochs 10 --initial-granularity 1 "
        "--performance-threshold 0.0001");
  };
  std::vector<Json> tuned = tune();
  // On a machine that others use, so few steps may decide nothing.
  for (int again = 0; again < 3 && reasons_in(tuned) == 0; ++again) tuned = tune();
  const std::vector<Json> off = lines("--optimize off");
  ASSERT_FALSE(tuned.empty());
  ASSERT_EQ(tuned.size(), off.size());
  for (std::size_t i = 0; i < tuned.size(); ++i) {
    if (!tuned[i].contains("step")) continue;
    EXPECT_EQ(tuned[i]["loss_hex"], off[i]["loss_hex"]) << "step " << tuned[i]["step"];
  }
  EXPECT_GT(reasons_in(tuned), 0);
  const Json& report = tuned.back()["tuning"];
  EXPECT_GT(report["trials"], 0);
  EXPECT_TRUE(report["rejected"].empty());
  ASSERT_EQ(report["subgraphs"].size(), 2U);  // one cut, and no reason for another
  for (const Json& piece : report["subgraphs"]) {
    EXPECT_GT(piece["ms"], 0);
    EXPECT_GT(piece["roofline"], 0);
    EXPECT_GT(piece["bandwidth"], 0);
    EXPECT_GT(piece["transferred_bytes"], 0);
  }
  EXPECT_TRUE(off.back()["tuning"].is_null());
  EXPECT_EQ(tuned.back()["weights_hash"], off.back()["weights_hash"]);
}

// At most a hundredth of the steps: here not one.
TEST(TuningProgram, TriesNothingInAShortRun) {
  const std::vector<Json> lines_of_run = lines("");
  ASSERT_FALSE(lines_of_run.empty());
  EXPECT_TRUE(lines_of_run.back()["tuning"].is_null());
}

}  // namespace
}  // namespace neap
