// What a run writes: nothing trained is lost because something beside it fails, and no file replaces another.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "tests/program.h"

namespace neap {
namespace {

constexpr const char* kRun = "train mlp:hidden=16 --batch 8 --steps 5 ";

bool has(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

void expect_one_line(const Outcome& o, int status, const std::string& words) {
  EXPECT_EQ(o.status, status) << o.err;
  EXPECT_TRUE(has(o.err, words)) << o.err;
  EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
}

TEST(Outputs, WeightsAreSavedWhenALogFailsBetweenSteps) {
  const ScratchFolder folder;
  const std::string weights = folder / "w.safetensors";
  const Outcome o =
      run_neap(kRun + ("--json /dev/full --save " + weights + " --checkpoint " + (folder / "run") + " >/dev/null"));
  expect_one_line(o, 2, "/dev/full");
  EXPECT_GT(std::filesystem::file_size(weights), 1000U);
  const Outcome next = run_neap(kRun + ("--resume --checkpoint " + (folder / "run")));
  EXPECT_EQ(next.status, 0) << next.err;
  EXPECT_TRUE(has(next.out, "goes on after step 1")) << next.out;
}

TEST(Outputs, AReaderThatGoesAwayEndsNoTraining) {
  const ScratchFolder folder;
  const std::string weights = folder / "w.safetensors";
  const Outcome o = run_neap(kRun + ("--save " + weights + " >/dev/full"));
  expect_one_line(o, 2, "standard output");
  EXPECT_TRUE(std::filesystem::exists(weights));
}

TEST(Outputs, AWrongCallHasItsStatusWhoeverListens) {
  EXPECT_EQ(run_neap("train mlp --budget 1KiB 2>/dev/full").status, 3);
  EXPECT_EQ(run_neap("train mlp --steps x 2>&-").status, 2);
  const ScratchFolder folder;
  const std::string weights = folder / "w.safetensors";
  const std::string note = "--budget-schedule 3:1KiB --save " + weights + " 2>/dev/full";
  EXPECT_EQ(run_neap(kRun + note).status, 0) << "a note is no reason to end";
  EXPECT_TRUE(std::filesystem::exists(weights));
}

TEST(Outputs, WhatIsLostOfAnAnswerIsAnError) {
  for (const char* command : {"plan mlp", "models", "fit mlp --budget 64MiB", "profile mlp --batch 8"}) {
    expect_one_line(run_neap(std::string(command) + " >/dev/full"), 2, "standard output");
  }
}

TEST(Outputs, OneFileIsNotForTwo) {
  const ScratchFolder folder;
  expect_one_line(run_neap(kRun + ("--json " + (folder / "a") + " --report " + (folder / "a.part"))), 2, "--report");
  const std::string x = folder / "x.safetensors";
  expect_one_line(run_neap(kRun + ("--trace " + x + " --save " + x)), 2, "--trace and --save are both");
  expect_one_line(run_neap(kRun + ("--json " + x + " --decisions " + (folder / "./x.safetensors"))), 2, "are both");
  expect_one_line(run_neap("compare mlp --steps 1 --json " + x + " --chart " + x), 2, "--json and --chart are both");
  EXPECT_TRUE(folder.files().empty());
  EXPECT_EQ(run_neap(kRun + std::string("--json /dev/null --trace /dev/null >/dev/null")).status, 2)
      << "a trace is no device's";

  write_text(folder / "run.html", "{\"step\":1,\"loss\":1}\n");
  expect_one_line(run_neap("report " + (folder / "run.html")), 2, "are both");
  write_text(folder / "blocks.csv", "id,lower,upper,size\n0,0,2,4\n");
  const std::string csv = folder / "blocks.csv";
  expect_one_line(run_neap("pack " + csv + " --capacity 8 --json " + csv), 2, "are both");
  EXPECT_TRUE(has(read_file(csv), "id,lower"));
}

TEST(Outputs, AreTriedBeforeTheStart) {
  const ScratchFolder folder;
  write_text(folder / "text", "x");
  expect_one_line(run_neap(kRun + ("--checkpoint " + (folder / "text/run"))), 2, "is no folder");
  expect_one_line(run_neap(kRun + ("--save-learnt " + (folder / "none/learnt"))), 2, "cannot write");
  EXPECT_EQ(folder.files().size(), 1U);
}

TEST(Outputs, ACheckpointIsNotReplacedWithoutAWord) {
  const ScratchFolder folder;
  const std::string run = kRun + ("--checkpoint " + (folder / "run"));
  EXPECT_EQ(run_neap(run).err, "");
  expect_one_line(run_neap(run), 0, "will be replaced");
  EXPECT_EQ(run_neap(run + " --resume").err, "");
}

TEST(Outputs, SayThatNoStepWasLeft) {
  const Outcome o = run_neap("train mlp:hidden=16 --batch 8 --steps 0");
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_TRUE(has(o.out, "no step was left")) << o.out;
}

TEST(Values, AreNotTheNextFlag) {
  const ScratchFolder folder;
  expect_one_line(run_neap("train mlp --json --report --steps 1"), 2,
                  "--json: its value is missing, --report comes next");
  expect_one_line(run_neap("train mlp --budget --steps=1"), 2, "--budget: its value is missing");
  const Outcome o = run_neap("train mlp --batch 8 --steps 1 --no-shuffle --json --x", "cd " + (folder / "") + " &&");
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_TRUE(std::filesystem::exists(folder / "--x"));
}

TEST(Values, AreNotEmpty) {
  for (const char* flag : {"--budget", "--save", "--init", "--spill-dir", "--json"}) {
    expect_one_line(run_neap("train mlp --steps 0 " + std::string(flag) + " ''"), 2, flag);
  }
  expect_one_line(run_neap("compare mlp --budgets=''"), 2, "--budgets");
}

TEST(Values, OfFreezeLeaveTheModelAlone) {
  const Outcome o = run_neap("train --freeze 'fc1*' mlp:hidden=16 --steps 1 --batch 4");
  EXPECT_EQ(o.status, 0) << o.err;
}

TEST(Ranges, AreSaidInWords) {
  expect_one_line(run_neap("train mlp --seed -1"), 2, "'-1' is not a number from 0 on");
  expect_one_line(run_neap("train mlp --steps -1"), 2, "'-1' is not a number from 0 on");
  expect_one_line(run_neap("train mlp --batch 0"), 2, "'0' is not a number above 0");
  expect_one_line(run_neap("train mlp --steps 99999999999999999999"), 2, "is not a number");
  expect_one_line(run_neap("plan 'ml\np'"), 2, "ml\\np");
}

}  // namespace
}  // namespace neap
