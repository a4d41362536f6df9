// Budget, length and batch change while a run goes on, and every mechanism may take part: what is made again, what
// leaves for RAM and disk, what is rounded, gears of recurrent layers.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "core/file_testing.h"
#include "neap/train.h"
#include "train/run_testing.h"

namespace neap {
namespace {

using testing::Record;
using testing::run;

constexpr const char* kModels[] = {"lstm-lm:hidden=64,vocab=64,dropout=0.1",
                                   "gpt-mini:layers=2,width=64,heads=2,dropout=0.1"};

// Shapes change at other steps than budgets do, and once at the same.
TrainOptions changing(std::string_view model) {
  TrainOptions out{.model = std::string(model), .steps = 14, .batch = 4, .length = 32, .seed = 5};
  out.batch_schedule = "3:8,9:2,13:8";
  out.length_schedule = "5:16,11:32";
  out.threads = 1;  // small steps: barriers would take longer than the work
  return out;
}

// `folder` is of a disk; RAM beside the arena holds a part of what leaves.
void squeeze(TrainOptions& options, const testing::TempDir& folder) {
  options.budget = "min+30%";
  options.budget_schedule = "2:min,5:50%,7:min+10%,10:100%,12:min";
  options.spill_dir = folder.path().string();
  options.host_ram = 64 << 10;
  options.guard = true;
}

void expect_below_budgets(const Record& r, std::string_view model) {
  EXPECT_EQ(r.summary.violations, 0) << model;
  for (const StepReport& s : r.steps) {
    ASSERT_TRUE(s.budget_bytes.has_value()) << model << ", step " << s.step;
    EXPECT_LE(s.peak_bytes, *s.budget_bytes) << model << ", step " << s.step;
  }
}

std::int64_t spilled(const Record& r) {
  std::int64_t out = 0;
  for (const StepReport& s : r.steps) out += s.spilled_bytes;
  return out;
}

TEST(AllTogether, EndsWithTheBitsOfStoringEverything) {
  const testing::TempDir folder;
  std::int64_t left = 0;
  for (const char* model : kModels) {
    TrainOptions options = changing(model);
    options.policy = "store-all";
    const Record stored = run(options);
    options.policy = "adaptive";
    squeeze(options, folder);
    for (const bool waits : {true, false}) {
      options.synchronous_planning = waits;
      const Record r = run(options);
      EXPECT_EQ(r.summary.weights_hash, stored.summary.weights_hash) << model;
      EXPECT_LT(r.steps[13].peak_bytes, stored.steps[13].peak_bytes) << model << ": the largest batch at the minimum";
      expect_below_budgets(r, model);
      left += spilled(r);
    }
  }
  EXPECT_GT(left, 0) << "nothing has left the arena";
}

TEST(AllTogether, WhatIsRoundedIsTheSameTwice) {
  const testing::TempDir folder;
  std::int64_t encoded = 0;
  for (const char* model : kModels) {
    TrainOptions options = changing(model);
    squeeze(options, folder);
    options.precision.tolerance = "default";
    options.precision.profiling_batches = 2;
    options.precision.profiling_window = 2;
    const Record first = run(options);
    expect_below_budgets(first, model);
    for (const StepReport& s : first.steps) encoded += s.encoded_bytes;
    options.planning_delay_ms = 5;  // plans come at other steps
    const Record again = run(options);
    EXPECT_EQ(again.summary.weights_hash, first.summary.weights_hash) << model;
    expect_below_budgets(again, model);
  }
  EXPECT_GT(encoded, 0) << "nothing has been rounded";
}

}  // namespace
}  // namespace neap
