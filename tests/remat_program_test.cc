// `neap plan --problem` as a user calls it.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "remat/problem_json.h"
#include "tests/program.h"
#include "tests/remat/traces.h"

namespace neap {
namespace {

using nlohmann::json;

// Replays the answer by names alone.
remat::Replay replay_by_name(const remat::Problem& p, const json& schedule) {
  std::map<std::string, std::uint32_t> ops;
  std::map<std::string, std::uint32_t> tensors;
  for (std::uint32_t i = 0; i < p.ops.size(); ++i) ops[p.ops[i].name] = i;
  for (std::uint32_t t = 0; t < p.tensors.size(); ++t) tensors[p.tensors[t].name] = t;
  std::vector<remat::Step> steps;
  for (const json& step : schedule) {
    const bool is_run = step.at(0) == "run";
    EXPECT_TRUE(is_run || step.at(0) == "free");
    steps.push_back({is_run ? remat::StepKind::kRun : remat::StepKind::kFree, (is_run ? ops : tensors).at(step.at(1))});
  }
  return remat::replay(p, steps);
}

std::string write_trace(const ScratchFolder& folder, double share) {
  remat::Problem p = remat::make_trace("resnet32", 0.4);
  const std::int64_t peak = remat::replay(p, remat::eager_schedule(p)).peak_bytes;
  p.budget = static_cast<std::int64_t>(static_cast<double>(peak) * share);
  write_text(folder / "p.json", remat::to_json_text(p));
  return folder / "p.json";
}

TEST(PlanProblem, AnswersWithAScheduleThatReplays) {
  const ScratchFolder folder;
  const std::string file = write_trace(folder, 0.7);
  const remat::Problem p = remat::parse_problem(read_file(file), file);
  double least = 0;
  for (const char* policy : {"oracle", "adaptive", "greedy", "dtr"}) {
    const Outcome o = run_neap("plan --problem " + file + " --time-limit 1 --json - --policy " + policy);
    ASSERT_EQ(o.status, 0) << policy << ": " << o.err;
    const json a = json::parse(o.out);
    const remat::Replay r = replay_by_name(p, a.at("schedule"));
    EXPECT_EQ(r.error, "");
    EXPECT_EQ(a.at("feasible"), true);
    EXPECT_EQ(a.at("peak_bytes"), r.peak_bytes);
    EXPECT_LE(r.peak_bytes, p.budget);
    EXPECT_LE(a.at("min_budget_bytes"), r.peak_bytes);
    EXPECT_DOUBLE_EQ(a.at("total_ms"), r.total_ms);
    EXPECT_GE(a.at("gap").get<double>(), 0);
    EXPECT_TRUE(a.at("optimal").is_boolean());
    EXPECT_GT(a.at("seconds").get<double>(), 0);
    if (least == 0) least = r.total_ms;
    EXPECT_LE(least, r.total_ms * (1 + 1e-9)) << policy;
  }
}

TEST(PlanProblem, SaysTheMinimumWhenItDoesNotFit) {
  const ScratchFolder folder;
  const std::string file = write_trace(folder, 0.01);
  for (const char* policy : {"oracle", "dtr", "store-all", "every-layer", "sqrt", "greedy"}) {
    const Outcome o = run_neap("plan --problem " + file + " --time-limit 1 --json - --policy " + policy);
    EXPECT_EQ(o.status, 3) << policy;
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
    const json a = json::parse(o.out);
    EXPECT_EQ(a.at("feasible"), false);
    EXPECT_NE(o.err.find(a.at("min_budget_bytes").dump()), std::string::npos) << o.err;
  }
}

TEST(PlanProblem, TakesAnotherBudget) {
  const ScratchFolder folder;
  const std::string file = write_trace(folder, 0.01);
  const Outcome o = run_neap("plan --problem " + file + " --budget 100% --json " + (folder / "a.json"));
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.out.find("proven optimal"), std::string::npos) << o.out;
  EXPECT_EQ(json::parse(read_file(folder / "a.json")).at("optimal"), true);
}

TEST(PlanProblem, WritesAModelAsAProblem) {
  const ScratchFolder folder;
  const Outcome out = run_neap("plan cnn --batch 8 --problem-out " + (folder / "m.json"));
  ASSERT_EQ(out.status, 0) << out.err;
  const Outcome o = run_neap("plan --problem " + (folder / "m.json") + " --budget 90% --time-limit 1 --json -");
  ASSERT_EQ(o.status, 0) << o.err;
  const remat::Problem p = remat::parse_problem(read_file(folder / "m.json"), "m.json");
  EXPECT_EQ(replay_by_name(p, json::parse(o.out).at("schedule")).error, "");
}

TEST(PlanProblem, RefusesBadCalls) {
  const ScratchFolder folder;
  const std::string file = write_trace(folder, 0.5);
  write_text(folder / "bad.json", "{\"budget\": 1, \"ops\": [{}]}");
  const auto refused = [](const std::string& arguments, const std::string& names) {
    const Outcome o = run_neap("plan " + arguments);
    EXPECT_EQ(o.status, 2) << o.err;
    EXPECT_EQ(o.out, "");
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
    EXPECT_NE(o.err.find(names), std::string::npos) << o.err;
  };
  refused("--problem " + (folder / "bad.json"), "op 0 has no 'name'");
  refused("--problem " + (folder / "missing.json"), "missing.json");
  refused("--problem " + file + " --policy spill", "--policy spill");
  refused("--problem " + file + " --budget x%", "--budget");
  refused("--problem " + file + " --time-limit 0", "--time-limit");
  refused("mlp --problem " + file, "not both");
  refused("", "MODEL");
}

}  // namespace
}  // namespace neap
