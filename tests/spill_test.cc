// Spilling through the program: what goes wrong with disks, and what becomes of the run. The bits are those of a run
// that stores everything, or the run stops with a reason and nothing is lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/program.h"

namespace neap {
namespace {

using Json = nlohmann::json;

constexpr const char* kRun = "train lstm-lm:hidden=128,vocab=64 --batch 16 --length 64 ";

Json last_line(const Outcome& o) {
  std::istringstream in(o.out);
  std::string last;
  for (std::string line; std::getline(in, line);) last = line;
  return last.empty() ? Json::object() : Json::parse(last);
}

Json spilled(const std::string& flags, int steps = 5) {
  const Outcome o = run_neap(kRun + ("--policy spill --json - --steps " + std::to_string(steps) + " " + flags));
  EXPECT_EQ(o.status, 0) << flags << "\n" << o.err;
  return o.status == 0 ? last_line(o) : Json::object();
}

std::string stored_hash(int steps = 5) {
  const Outcome o = run_neap(kRun + ("--policy store-all --json - --steps " + std::to_string(steps)));
  EXPECT_EQ(o.status, 0) << o.err;
  return last_line(o)["weights_hash"];
}

TEST(Spill, TransfersThatFailAreSurvivedToTheSameBits) {
  const std::string hash = stored_hash();
  for (const char* fault : {"fail-write:3", "fail-read:3", "corrupt-read:3"}) {
    const Json loose = spilled(std::string("--budget 95% --spill-fault ") + fault);
    EXPECT_EQ(loose["weights_hash"], hash) << fault;
    EXPECT_EQ(loose["replays"], 1) << fault;
    // Near the minimum weights change before the last fetch: there a second copy stands in, and nothing is run again
    // but what failed before anything had changed.
    const Json tight = spilled(std::string("--budget min --spill-fault ") + fault);
    EXPECT_EQ(tight["weights_hash"], hash) << fault;
    EXPECT_EQ(tight["replays"], fault == std::string("fail-write:3") ? 1 : 0) << fault;
    EXPECT_EQ(tight["violations"], 0);
  }
}

TEST(Spill, ADiskThatFillsUpIsDoneWithout) {
  const std::string hash = stored_hash();
  for (const char* how : {"--budget 75% --spill-fault full:1MiB", "--budget 75% --spill-fault full:1MiB@17",
                          "--budget min+20% --spill-fault full:0@30"}) {
    const Outcome o = run_neap(kRun + std::string("--policy spill --json - --steps 5 ") + how);
    ASSERT_EQ(o.status, 0) << how << "\n" << o.err;
    EXPECT_NE(o.err.find("the disk is full"), std::string::npos) << o.err;
    const Json s = last_line(o);
    EXPECT_EQ(s["weights_hash"], hash) << how;
    EXPECT_GE(s["replays"], 1) << how;
    EXPECT_EQ(s["violations"], 0) << how;
    EXPECT_LE(s["peak_bytes"], s["budget_bytes"]) << how;
  }
}

// A smaller budget comes after the disk is gone: everything fits by recomputation, which needs more than spilling at
// its least.
TEST(Spill, ADiskThatIsGoneBeforeTheBudgetIsCut) {
  const std::string run =
      "train gpt-mini:layers=4,width=96,heads=4 --batch 8 --length 64 --length-schedule 1:64,6:48 --steps 8 --seed 1 "
      "--json - ";
  const Json stored = last_line(run_neap(run + "--policy store-all"));
  const Outcome o = run_neap(run + "--policy spill --spill-fault full:0@3 --budget-schedule 1:60%,5:min+10%,7:70%");
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.err.find("from now on tensors are made again"), std::string::npos) << o.err;
  EXPECT_EQ(last_line(o)["weights_hash"], stored["weights_hash"]);
  EXPECT_EQ(last_line(o)["violations"], 0);
}

TEST(Spill, ADiskTenTimesSlowerThanMeasuredStallsAndStaysExact) {
  const Outcome o =
      run_neap(kRun + std::string("--policy spill --json - --steps 9 --budget 75% --spill-fault slow:20"));
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(last_line(o)["weights_hash"], stored_hash(9));
  double stalled_ms = 0;
  std::istringstream in(o.out);
  for (std::string line; std::getline(in, line);) stalled_ms += Json::parse(line).value("stalled_ms", 0.0);
  EXPECT_GT(stalled_ms, 0);
}

TEST(Spill, FoldersThatCannotBeUsedEndBeforeTheFirstStep) {
  for (const char* folder : {"/no/such/folder", "/proc", "/dev/null"}) {
    const Outcome o = run_neap(kRun + std::string("--steps 1 --policy spill --budget 75% --spill-dir ") + folder);
    EXPECT_EQ(o.status, 2) << folder;
    EXPECT_NE(o.err.find(folder), std::string::npos) << o.err;
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
  }
}

// However late it is needed.
TEST(Spill, APlaceIsTriedBeforeTheFirstStep) {
  const Outcome o = run_neap(kRun + std::string("--steps 2 --policy spill --budget 100% --spill-dir /no/such/folder"));
  EXPECT_EQ(o.status, 2);
  EXPECT_NE(o.err.find("cannot spill to '/no/such/folder'"), std::string::npos) << o.err;
}

TEST(Spill, AFileSystemInMemoryWillDo) {
  ASSERT_TRUE(std::filesystem::is_directory("/dev/shm"));
  EXPECT_EQ(spilled("--budget 75% --spill-dir /dev/shm")["weights_hash"], stored_hash());
}

TEST(Spill, ABudgetBelowTheLargestTensorIsRefusedWithTheMinimum) {
  const Outcome o = run_neap(kRun + std::string("--steps 1 --policy spill --budget 4MiB --json -"));
  EXPECT_EQ(o.status, 3);
  EXPECT_TRUE(o.out.empty()) << "before the first step";
  const std::size_t open = o.err.rfind('(');
  ASSERT_NE(open, std::string::npos) << o.err;
  const std::string minimum = std::to_string(std::stoll(o.err.substr(open + 1)));
  EXPECT_EQ(spilled("--budget " + minimum)["weights_hash"], stored_hash()) << "the minimum that it names is one";
}

TEST(Spill, KilledItLeavesNothingInItsFolder) {
  const ScratchFolder folder;
  const ScratchFolder spill;
  const std::string files = "ls -l /proc/$pid/fd 2>/dev/null | grep " + (spill / "");
  const std::string script = NEAP_PROGRAM " " +
                             (kRun + ("--steps 100000 --policy spill --budget 75% --spill-dir " + (spill / "") +
                                      " --json /dev/null >/dev/null & pid=$!\n")) +
                             "for i in $(seq 300); do " + files + " && break; sleep 0.1; done >" + (folder / "open") +
                             "\nls -A " + (spill / "") + " >" + (folder / "named") + "\nkill -9 $pid\nwait $pid\n";
  write_text(folder / "script", script);
  ASSERT_GE(std::system(("sh " + (folder / "script") + " 2>/dev/null").c_str()), 0);
  EXPECT_NE(read_file(folder / "open").find("(deleted)"), std::string::npos) << "it was spilling there";
  EXPECT_EQ(read_file(folder / "named"), "") << "under no name";
  EXPECT_TRUE(spill.files().empty());
}

}  // namespace
}  // namespace neap
