// What --trace shows.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/program.h"

namespace neap {
namespace {

using Json = nlohmann::json;

std::vector<Json> traced(const std::string& flags) {
  const ScratchFolder folder;
  const Outcome o = run_neap(flags + " --trace " + (folder / "trace.json"));
  EXPECT_EQ(o.status, 0) << o.err;
  if (o.status != 0) return {};
  EXPECT_EQ(folder.files(), std::vector<std::string>{"trace.json"});
  return Json::parse(read_file(folder / "trace.json"))["traceEvents"].get<std::vector<Json>>();
}

struct Interval {
  double begin = 0;
  double end = 0;
  double shared(const Interval& o) const { return std::min(end, o.end) - std::max(begin, o.begin); }
};

Interval interval_of(const Json& e) { return {e["ts"].get<double>(), e["ts"].get<double>() + e["dur"].get<double>()}; }

bool is_span(const Json& e, const std::string& category) { return e["ph"] == "X" && e["cat"] == category; }

// Pieces of the arena whose users, one block after the other, come from all three phases of the step.
TEST(Trace, ShowsAPieceOfTheArenaUsedByForwardBackwardAndUpdate) {
  const auto events = traced("train resnet20 --batch 4 --steps 4");
  const auto step = std::find_if(events.begin(), events.end(), [](const Json& e) { return is_span(e, "step"); });
  ASSERT_NE(step, events.end());
  EXPECT_EQ((*step)["name"], "step 2") << "the last three";
  const Interval during = interval_of(*step);
  std::map<std::int64_t, std::map<std::string, int>>
      changes;  // where in the arena: phases that begin and end to use it
  std::set<std::string> kinds;
  for (const Json& e : events) {
    if (e["ph"] != "b" || e["ts"] < during.begin || e["ts"] >= during.end) continue;
    const Json& a = e["args"];
    kinds.insert(a["kind"].get<std::string>());
    for (const auto& user : a["users"].items()) {
      ++changes[a["offset"].get<std::int64_t>()][user.key()];
      --changes[a["offset"].get<std::int64_t>() + a["bytes"].get<std::int64_t>()][user.key()];
    }
  }
  EXPECT_FALSE(kinds.contains("state")) << "which is used by all of them anyway";
  std::map<std::string, int> users;
  bool found = false;
  for (const auto& [offset, change] : changes) {
    for (const auto& [phase, count] : change) users[phase] += count;
    found |= users["forward"] > 0 && users["backward"] > 0 && users["update"] > 0;
  }
  EXPECT_TRUE(found);
}

TEST(Trace, ShowsEveryCallWithItsLayer) {
  const auto events = traced("train mlp --steps 2");
  int forward = 0;
  int update = 0;
  double last = 0;
  for (const Json& e : events) {
    if (e["ph"] != "X" || !e.contains("args") || !e["args"].contains("op")) continue;
    forward += e["cat"] == "forward" ? 1 : 0;
    update += e["cat"] == "update" ? 1 : 0;
    EXPECT_FALSE(e["args"]["layer"].get<std::string>().empty());
    EXPECT_GE(e["ts"].get<double>() + 1e-3, last) << "one behind the other";
    last = e["ts"].get<double>() + e["dur"].get<double>();
  }
  EXPECT_GT(forward, 4);
  EXPECT_GT(update, 4);
  EXPECT_TRUE(std::any_of(events.begin(), events.end(), [](const Json& e) { return e["ph"] == "C"; }));
}

// The disk is made slow enough that calls run meanwhile, whatever else the machine does.
TEST(Trace, ShowsTransfersBesideCallsAndBothTiers) {
  const auto events = traced(
      "train lstm-lm:hidden=128,vocab=64 --batch 16 --length 64 --steps 3 --policy spill --budget 80% "
      "--host-ram 1MiB --spill-write-rate 2e8 --spill-read-rate 2e8");
  std::vector<Interval> calls;
  for (const Json& e : events) {
    if (is_span(e, "forward") || is_span(e, "backward")) calls.push_back(interval_of(e));
  }
  std::map<std::string, double> overlap_us;
  std::set<std::string> tiers;
  for (const Json& e : events) {
    if (!is_span(e, "spill") && !is_span(e, "fetch")) continue;
    EXPECT_GT(e["args"]["bytes"].get<std::int64_t>(), 0);
    EXPECT_FALSE(e["args"]["tensor"].get<std::string>().empty());
    tiers.insert(e["args"]["tier"].get<std::string>());
    const Interval transfer = interval_of(e);
    for (const Interval& call : calls) {
      overlap_us[e["cat"].get<std::string>()] += std::max(0.0, transfer.shared(call));
    }
  }
  EXPECT_EQ(tiers, (std::set<std::string>{"ram", "disk"}));
  EXPECT_GT(overlap_us["spill"], 0);
  EXPECT_GT(overlap_us["fetch"], 0);
}

TEST(Trace, AFileThatCannotBeWrittenIsRefusedBeforeTheFirstStep) {
  const Outcome o = run_neap("train mlp --steps 1 --json - --trace /no/such/folder/trace.json");
  EXPECT_EQ(o.status, 2);
  EXPECT_TRUE(o.out.empty());
  EXPECT_NE(o.err.find("/no/such/folder"), std::string::npos) << o.err;
}

}  // namespace
}  // namespace neap
