// Why a plan does what it does, in the words of `neap plan`: from the rule of the policy and the figures of the layer.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/bytes.h"
#include "tests/json_lines.h"
#include "tests/program.h"

namespace neap {
namespace {

constexpr const char* kModel = "plan gpt-mini:layers=3,width=32,heads=2,vocab=64 --length 32 --batch 4 ";
constexpr const char* kSpilling =
    "plan lstm-lm:hidden=128,vocab=64 --batch 16 --length 64 --policy spill --budget 80% ";

bool has(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

Json planned(const std::string& command) {
  const Outcome o = run_neap(command + " --json -");
  EXPECT_EQ(o.status, 0) << command << "\n" << o.err;
  Json out;
  out["layers"] = Json::array();
  return o.status == 0 ? Json::parse(o.out) : out;
}

TEST(Reasons, NameTheRuleAndTheFiguresOfTheLayer) {
  int again = 0;
  const Json plan = planned(std::string(kModel) + "--policy every-layer --budget min");
  for (const Json& layer : plan["layers"]) {
    const auto reason = layer["reason"].get<std::string>();
    EXPECT_TRUE(has(reason, "every-layer keeps what goes from layer to layer")) << layer;
    if (layer["added_ms"].get<double>() <= 0) continue;
    ++again;
    EXPECT_TRUE(has(reason, human_bytes(layer["freed_bytes"].get<std::int64_t>()))) << layer;
    EXPECT_TRUE(has(reason, fmt::format("{:.2f} ms", layer["added_ms"].get<double>()))) << layer;
  }
  EXPECT_GT(again, 0);
}

TEST(Reasons, AreNoRuleWhereTheFiguresDecide) {
  const std::string plan = planned(std::string(kModel) + "--budget 60%").dump();
  EXPECT_TRUE(has(plan, "frees ")) << plan;
  for (const char* words : {"every-layer", "sqrt", "greedy", "cheap for its size", "dear to compute"}) {
    EXPECT_FALSE(has(plan, words)) << words << "\n" << plan;
  }
}

TEST(Reasons, AreNoneOfTheLayersWhereEverythingFits) {
  const Json plan = planned("plan mlp --policy every-layer");
  for (const Json& layer : plan["layers"]) {
    EXPECT_TRUE(has(layer["reason"].get<std::string>(), "everything fits")) << layer;
    EXPECT_EQ(layer["action"], "store");
  }
  EXPECT_TRUE(has(planned("plan mlp --policy store-all").dump(), "store-all keeps everything"));
}

TEST(Reasons, GiveThePriceOfSpillsAndCodecs) {
  int spilled = 0;
  const Json spilling = planned(kSpilling);
  for (const Json& layer : spilling["layers"]) {
    const auto reason = layer["reason"].get<std::string>();
    EXPECT_FALSE(has(reason, "to make the layer again")) << "spill makes nothing again: " << layer;
    if (!has(layer["action"].get<std::string>(), "spill")) continue;
    ++spilled;
    EXPECT_TRUE(has(reason, "ms on the link")) << layer;
  }
  EXPECT_GT(spilled, 0);
  int encoded = 0;
  const Json rounding = planned("plan gpt-mini:width=64,layers=2,heads=2,vocab=32 --batch 2 --length 64 --policy int8");
  for (const Json& layer : rounding["layers"]) {
    if (!has(layer["action"].get<std::string>(), "encode")) continue;
    ++encoded;
    EXPECT_TRUE(has(layer["reason"].get<std::string>(), "of floats are kept in int8:")) << layer;
    EXPECT_TRUE(has(layer["reason"].get<std::string>(), "ms to encode and decode; int8 stores all")) << layer;
    EXPECT_GT(layer["added_ms"], 0.0) << layer;
  }
  EXPECT_GT(encoded, 0);
}

// Layers of which only what store-all makes again is made again, or what lies in another layer.
TEST(Reasons, LeaveOutWhatFreesNothing) {
  int free_of_charge = 0;
  for (const char* policy : {"dtr", "greedy", "oracle", "adaptive"}) {
    for (const char* budget : {"min", "60%", "80%"}) {
      const Json plan = planned(std::string(kModel) + "--policy " + policy + " --budget " + budget);
      for (const Json& layer : plan["layers"]) {
        EXPECT_FALSE(has(layer["reason"].get<std::string>(), "frees 0 B")) << layer;
        free_of_charge += layer["freed_bytes"] == 0 && has(layer["reason"].get<std::string>(), "made again in");
      }
    }
  }
  EXPECT_GT(free_of_charge, 0);
}

// For people: how long a step takes, how sure that is, and what lies beside the budget.
TEST(PlanText, SaysTheStepTimeThatItIsAGuessAndWhatLeavesTheArena) {
  const Outcome kept = run_neap(kModel);
  EXPECT_TRUE(has(kept.out, "\nstep        ") && has(kept.out, "guesses")) << kept.out;
  EXPECT_FALSE(has(kept.out, "\noutside     ")) << kept.out;
  const Outcome spilled = run_neap(kSpilling);
  EXPECT_TRUE(has(spilled.out, "\noutside     up to ")) << spilled.out << spilled.err;
}

}  // namespace
}  // namespace neap
