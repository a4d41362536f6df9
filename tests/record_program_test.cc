// `neap profile --record` as a user calls it.
#include <gtest/gtest.h>

#include <set>

#include "policy/lifetime/recording.h"
#include "tests/program.h"

namespace neap {
namespace {

constexpr const char* kModel = "lstm-lm:hidden=16,vocab=32 --batch 2 ";

TEST(RecordProgram, WritesWhatTheStepsAllocated) {
  const ScratchFolder folder;
  const std::string file = folder / "r.jsonl";
  const Outcome o = run_neap("profile " + std::string(kModel) + "--length 48 --steps 3 --record " + file);
  ASSERT_EQ(o.status, 0) << o.err;
  const Recording recording = read_recording(file);
  ASSERT_EQ(recording.steps.size(), 3U);
  EXPECT_EQ(recording.steps[0].events[0].length, 48);
  EXPECT_EQ(recording.steps[1], recording.steps[2]);
  EXPECT_NE(o.out.find("3 steps recorded"), std::string::npos);
}

TEST(RecordProgram, TakesVaryingLengths) {
  const ScratchFolder folder;
  const std::string file = folder / "r.jsonl";
  const Outcome o =
      run_neap("profile " + std::string(kModel) + "--length 128 --lengths varying --steps 12 --record " + file);
  ASSERT_EQ(o.status, 0) << o.err;
  std::set<std::int64_t> lengths;
  for (const RecordedStep& step : read_recording(file).steps) lengths.insert(step.events[0].length);
  EXPECT_GT(lengths.size(), 1U);
}

TEST(RecordProgram, RefusesAPlaceThatCannotBeWritten) {
  const ScratchFolder folder;
  const Outcome o =
      run_neap("profile " + std::string(kModel) + "--length 16 --steps 1 --record " + (folder / "no/r.jsonl"));
  EXPECT_EQ(o.status, 2);
  EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
  EXPECT_NE(o.err.find("no/r.jsonl"), std::string::npos) << o.err;
  EXPECT_TRUE(folder.files().empty());
}

}  // namespace
}  // namespace neap
