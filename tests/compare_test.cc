// neap compare: budgets and policies side by side.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/program.h"

namespace neap {
namespace {

using Json = nlohmann::json;

TEST(Compare, WritesOneSummaryABudgetAndPolicyAndTheSameBits) {
  const Outcome o = run_neap(
      "compare lstm-lm:hidden=64,vocab=500 --batch 4 --length 64 --steps 3 --budgets 100%,60% --policies "
      "spill,store-all "
      "--json -");
  ASSERT_EQ(o.status, 0) << o.err;
  std::vector<Json> rows;
  std::istringstream in(o.out);
  for (std::string line; std::getline(in, line);) rows.push_back(Json::parse(line));
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0]["policy"], "spill");
  EXPECT_EQ(rows[1]["policy"], "store-all");
  EXPECT_EQ(rows[0]["budget_bytes"], rows[1]["budget_bytes"]);
  for (const Json& row : rows) {
    if (!row["feasible"].get<bool>()) continue;
    EXPECT_EQ(row["weights_hash"], rows[1]["weights_hash"]);
    EXPECT_EQ(row["violations"], 0);
    EXPECT_EQ(row["steps"], 3);
    EXPECT_TRUE(row["same_weights"]);
    EXPECT_EQ(row["all_step_ms"].size(), 3U);
    EXPECT_GT(row["ratio_to_store_all"].get<double>(), 0);
    EXPECT_LE(row["peak_bytes"].get<std::int64_t>(), row["budget_bytes"].get<std::int64_t>());
  }
}

TEST(Compare, SwitchesMechanismsOffOneAtATimeAndDrawsTheFront) {
  const ScratchFolder folder;
  const Outcome o = run_neap(
      "compare lstm-lm:hidden=64,vocab=500 --batch 4 --length 64 --steps 3 --host-ram 64MiB --tolerance default "
      "--budgets 70% --policies adaptive --without recompute,spill,bits,optimize,recurrent --chart " +
      (folder / "chart.svg"));
  ASSERT_EQ(o.status, 0) << o.err;
  for (const char* name :
       {"no recompute", "no spill", "no bits", "no optimize", "no recurrent", "step time, ms", " * "}) {
    EXPECT_NE(o.out.find(name), std::string::npos) << name << "\n" << o.out;
  }
  const std::string exact = o.out.substr(o.out.find("no bits"));
  EXPECT_NE(exact.substr(0, exact.find('\n')).find("same"), std::string::npos) << "exact as store-all\n" << o.out;
  const std::string svg = read_file(folder / "chart.svg");
  EXPECT_NE(svg.find("<polyline"), std::string::npos);
  EXPECT_NE(svg.find("no spill at 70%"), std::string::npos);
  EXPECT_EQ(run_neap("compare mlp --without luck").status, 2);
}

// Gears and gates as they are without an agent, whatever the budget; the other entrant has its choice.
TEST(Compare, WithoutRecurrentHasOneGearAndKeepsGates) {
  const Outcome o = run_neap(
      "compare lstm-lm:hidden=64,vocab=500 --batch 4 --length 64 --steps 3 --recurrent-gears rolled --budgets 60% "
      "--policies adaptive --without recurrent --json -");
  ASSERT_EQ(o.status, 0) << o.err;
  std::istringstream in(o.out);
  for (std::string line; std::getline(in, line);) {
    const Json row = Json::parse(line);
    ASSERT_TRUE(row["feasible"]) << row["policy"];
    const bool is_fixed = row["policy"] == "no recurrent";
    ASSERT_FALSE(row["recurrent"].empty());
    for (const Json& layer : row["recurrent"]) {
      EXPECT_EQ(layer["gear"], is_fixed ? "whole" : "rolled") << row["policy"];
      if (is_fixed) {
        EXPECT_EQ(layer["gates"], "keep");
      }
      EXPECT_EQ(layer["choices"] > 0, !is_fixed) << row["policy"];
    }
    EXPECT_TRUE(row["same_weights"]);
  }
}

TEST(Compare, RefusesWhatIsOfOneRun) {
  const ScratchFolder folder;
  write_text(folder / "schedule.ini", "budget-schedule = 5:min\n");
  const auto expect_refused = [](const std::string& flags, const std::string& what) {
    const Outcome o = run_neap("compare mlp --steps 2 " + flags);
    EXPECT_EQ(o.status, 2) << flags;
    EXPECT_NE(o.err.find(what), std::string::npos) << o.err;
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
    EXPECT_EQ(o.out, "");
  };
  expect_refused("--budget 1GiB --budgets 50%", "write --budgets alone");
  expect_refused("--policy spill --policies adaptive", "write --policies alone");
  expect_refused("--budget-schedule 1:1KiB", "--budget-schedule");
  expect_refused("--config " + (folder / "schedule.ini"), "--budget-schedule");
}

TEST(Compare, TakesOneBudgetAndPolicyAsListsOfOne) {
  const Outcome o = run_neap("compare mlp --steps 2 --json - --budget 100% --policy store-all");
  ASSERT_EQ(o.status, 0) << o.err;
  ASSERT_EQ(std::count(o.out.begin(), o.out.end(), '\n'), 1) << o.out;
  const Json row = Json::parse(o.out);
  EXPECT_EQ(row["asked_budget"], "100%");
  EXPECT_EQ(row["policy"], "store-all");
}

// A config file that train reads, too.
TEST(Compare, TakesBudgetAndPolicyOfAConfigFileUnlessThereAreLists) {
  const ScratchFolder folder;
  write_text(folder / "train.ini", "budget = 100%\npolicy = store-all\n");
  const std::string call = "compare mlp --steps 2 --json - --config " + (folder / "train.ini");
  const Outcome one = run_neap(call);
  ASSERT_EQ(one.status, 0) << one.err;
  ASSERT_EQ(std::count(one.out.begin(), one.out.end(), '\n'), 1) << one.out;
  const Json row = Json::parse(one.out);
  EXPECT_EQ(row["asked_budget"], "100%");
  EXPECT_EQ(row["policy"], "store-all");
  const Outcome other = run_neap(call + " --budgets min+50% --policies adaptive");
  ASSERT_EQ(other.status, 0) << other.err;
  ASSERT_EQ(std::count(other.out.begin(), other.out.end(), '\n'), 1) << other.out;
  EXPECT_EQ(Json::parse(other.out)["asked_budget"], "min+50%");
  EXPECT_EQ(Json::parse(other.out)["policy"], "adaptive");
}

TEST(Compare, TheCommandLineWinsOverAConfigFile) {
  const ScratchFolder folder;
  write_text(folder / "both.ini", "budget = 70%\nbudgets = 100%,80%\npolicies = store-all\n");
  const std::string call = "compare mlp --steps 2 --json - --config " + (folder / "both.ini");
  const auto asked = [&](const std::string& flags) {
    const Outcome o = run_neap(call + flags);
    EXPECT_EQ(o.status, 0) << o.err;
    std::istringstream in(o.out);
    std::string out;
    for (std::string line; std::getline(in, line);) out += Json::parse(line)["asked_budget"].get<std::string>() + " ";
    return out;
  };
  EXPECT_EQ(asked(""), "100% 80% ");
  EXPECT_EQ(asked(" --budget 90%"), "90% ");
  EXPECT_EQ(asked(" --budgets 60%"), "60% ");
  EXPECT_EQ(run_neap("compare --budgets 100% --policies store-all --without spill --steps 0 mlp").err.find("MODEL"),
            std::string::npos);
  const Outcome two = run_neap(call + " --budget 1GiB --budgets 50%");
  EXPECT_EQ(two.status, 2) << "a file does not make it less of a slip";
  EXPECT_NE(two.err.find("write --budgets alone"), std::string::npos) << two.err;
}

TEST(Compare, SaysWhichBudgetsItRaised) {
  const ScratchFolder folder;
  const Outcome o =
      run_neap("compare mlp --steps 2 --budgets 1KiB,100% --policies adaptive --json " + (folder / "rows.json"));
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.out.find("\n1KiB: below the minimum of "), std::string::npos) << o.out;
  EXPECT_EQ(o.out.find("100%: below"), std::string::npos) << o.out;
  std::istringstream in(read_file(folder / "rows.json"));
  std::vector<Json> rows;
  for (std::string line; std::getline(in, line);) rows.push_back(Json::parse(line));
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0]["asked_budget"], "1KiB");
  EXPECT_TRUE(rows[0]["below_minimum"]);
  EXPECT_GT(rows[0]["budget_bytes"].get<std::int64_t>(), 1024);
  EXPECT_EQ(rows[1]["asked_budget"], "100%");
  EXPECT_FALSE(rows[1]["below_minimum"]);
}

// Runs until `ready` is a shell's truth, then interrupts and waits; `flags` as compare takes them.
Outcome interrupted(const std::string& flags, const std::string& ready) {
  const std::string until = "until " + ready + " 2>/dev/null; do sleep 0.05; kill -0 $pid || exit 1; done\n";
  return run_neap("compare mlp --policies store-all " + flags + " & pid=$!\n" + until +
                  "sleep 0.3\nkill -INT $pid\nwait $pid");
}

TEST(Compare, InterruptedHasTheRowsOfTheStepsSoFar) {
  const ScratchFolder folder;
  const std::string rows = folder / "rows.jsonl";
  // Lines that have come tell that the second budget runs: the first is written when it has ended.
  const Outcome o = interrupted("--steps 1000 --budgets 100%,90%,80% --json - > " + rows, "grep -q summary " + rows);
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(o.err.rfind("neap: interrupted: 1 of 3 budgets came to their end", 0), 0U) << o.err;
  EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
  std::istringstream in(read_file(rows));
  std::vector<Json> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(Json::parse(line));
  ASSERT_GE(lines.size(), 1U);
  EXPECT_EQ(lines[0]["steps"], 1000);
  if (lines.size() == 1U) return;  // it came before the first step at the second budget
  ASSERT_EQ(lines.size(), 2U);
  const auto steps = lines[1]["steps"].get<std::int64_t>();
  EXPECT_LT(steps, 1000);
  EXPECT_EQ(lines[1]["all_step_ms"].size(), steps);
  EXPECT_TRUE(lines[1]["same_weights"]);
  EXPECT_NE(o.err.find("the rows of 90% are of " + std::to_string(steps) + " of 1000 steps"), std::string::npos)
      << o.err;
}

TEST(Compare, InterruptedWritesFilesTooWhereThereAreRows) {
  const ScratchFolder folder;
  const std::string table = folder / "table";
  const std::string files = " --json " + (folder / "rows.jsonl") + " --chart " + (folder / "chart.svg");
  const Outcome o =
      interrupted("--steps 1000 --budgets 100%,90% " + files + " > " + table, "grep -q '^100% ' " + table);
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.err.find("interrupted: 1 of 2 budgets"), std::string::npos) << o.err;
  const std::string rows = read_file(folder / "rows.jsonl");
  EXPECT_EQ(Json::parse(rows.substr(0, rows.find('\n')))["steps"], 1000);
  EXPECT_NE(read_file(folder / "chart.svg").find("store-all at 100%"), std::string::npos);
}

TEST(Compare, PrintsATableForPeople) {
  const Outcome o = run_neap("compare mlp --steps 2 --budgets 100% --policies store-all");
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.out.find("store-all"), std::string::npos);
  EXPECT_NE(o.out.find("same"), std::string::npos);
}

}  // namespace
}  // namespace neap
