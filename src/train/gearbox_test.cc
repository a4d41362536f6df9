#include "train/gearbox.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "neap/error.h"
#include "neap/recurrent.h"

namespace neap {
namespace {

void feed(std::string_view /*input*/, std::span<std::byte> dst) {
  for (std::size_t i = 0; i < dst.size() / 4; ++i) {
    const auto token = static_cast<std::int32_t>(i * 7 % 11);
    std::memcpy(dst.data() + i * 4, &token, 4);
  }
}

struct Ran {
  Summary summary;
  std::string notes;
};

constexpr std::int64_t kBatch = 3;
constexpr int kSteps = 6;

Ran train(const std::string& model, const RecurrentTraining& recurrent, const std::string& budget = {},
          std::int64_t length = 22, std::int64_t batch = kBatch) {
  TrainOptions options{.steps = kSteps, .batch = batch, .length = length, .budget = budget, .recurrent = recurrent};
  options.synchronous_planning = true;
  Trainer trainer(open_model(model), options, feed);
  Ran out;
  for (int i = 0; i < kSteps; ++i) out.notes += trainer.advance().note;
  out.summary = trainer.summary();
  return out;
}

// Tries only, as often as chunks allow.
RecurrentTraining restless() { return {.epsilon = 1, .dwell = 1, .most_switches = 1000}; }

class Gears : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Models, Gears, ::testing::Values("lstm-lm:hidden=24,chunk=5", "gru-lm:hidden=24,chunk=5"),
                         [](const auto& which) { return std::string(which.param, 3) == "gru" ? "gru" : "lstm"; });

TEST_P(Gears, EveryWayOfRunningGivesRolledsBits) {
  const Summary rolled = train(GetParam(), {.gear = "rolled", .gates = "keep"}).summary;
  ASSERT_EQ(rolled.recurrent.size(), 2U);
  EXPECT_EQ(rolled.recurrent[0].gear, "rolled");
  RecurrentTraining gearless = restless();
  gearless.gates = "recompute";
  for (const RecurrentTraining& r : {RecurrentTraining{.gear = "unrolled:2"}, RecurrentTraining{.gear = "unrolled:64"},
                                     RecurrentTraining{.gear = "hybrid:7", .gates = "recompute"},
                                     RecurrentTraining{.gear = "whole"}, RecurrentTraining{}, restless(), gearless}) {
    const Summary other = train(GetParam(), r).summary;
    EXPECT_EQ(other.weights_hash, rolled.weights_hash) << r.gear << " " << r.gates;
    EXPECT_EQ(other.numerics_id, rolled.numerics_id) << r.gear << " " << r.gates;
  }
}

// Chunks of bf16, and those between conversions, have gears like others.
TEST_P(Gears, EveryWayOfRunningGivesRolledsBitsInBf16Too) {
  const auto summary = [&](const RecurrentTraining& r, std::int64_t batch) {
    TrainOptions options{.steps = kSteps, .batch = batch, .length = 22, .recurrent = r};
    options.compute = "bf16";
    options.synchronous_planning = true;
    Trainer trainer(open_model(GetParam()), options, feed);
    for (int i = 0; i < kSteps; ++i) trainer.advance();
    return trainer.summary();
  };
  for (const std::int64_t batch : {3, 4}) {  // products of bf16 take an even one; an odd one is converted
    const Summary rolled = summary({.gear = "rolled"}, batch);
    ASSERT_EQ(rolled.recurrent.size(), 2U);
    EXPECT_EQ(rolled.recurrent[0].gear, "rolled");
    for (const RecurrentTraining& r : {RecurrentTraining{.gear = "unrolled:2"},
                                       RecurrentTraining{.gear = "whole", .gates = "recompute"}, restless()}) {
      const Summary other = summary(r, batch);
      EXPECT_EQ(other.weights_hash, rolled.weights_hash) << r.gear << " " << batch;
      EXPECT_EQ(other.numerics_id, rolled.numerics_id) << r.gear << " " << batch;
    }
    EXPECT_NE(rolled.weights_hash, train(GetParam(), {.gear = "rolled"}, {}, 22, batch).summary.weights_hash);
  }
}

TEST_P(Gears, SwitchesInsideSequencesAsOftenAsAllowed) {
  const Summary often = train(GetParam(), restless()).summary;
  for (const RecurrentReport& r : often.recurrent) {
    EXPECT_EQ(r.choices, 6 * 5) << r.layer;  // five chunks a sequence
    EXPECT_GT(r.switches, 6) << r.layer;     // more than one a sequence
  }
  RecurrentTraining calm = restless();
  calm.most_switches = 1;
  for (const RecurrentReport& r : train(GetParam(), calm).summary.recurrent) EXPECT_LE(r.switches, 6);
}

// Where the recurrent layer sets the minimum: nothing else is large.
const std::string kTight = "lstm-lm:hidden=32,chunk=11,vocab=12,layers=1";
constexpr std::int64_t kLarge = 24;

TEST(Gearbox, NoChoiceGoesAboveTheBudget) {
  const Summary free = train(kTight, {}, {}, 22, kLarge).summary;
  for (const char* budget : {"min", "60%"}) {
    const Summary tight = train(kTight, restless(), budget, 22, kLarge).summary;
    EXPECT_EQ(tight.violations, 0) << budget;
    EXPECT_LE(tight.peak_bytes, tight.budget_bytes.value()) << budget;
    EXPECT_EQ(tight.weights_hash, free.weights_hash) << budget;
    EXPECT_EQ(tight.numerics_id, free.numerics_id) << budget;
  }
}

TEST(Gearbox, GatesAreMadeAgainWhereMemoryIsShort) {
  const Summary least = train(kTight, {}, "min", 22, kLarge).summary;
  const Summary kept = train(kTight, {.gates = "keep"}, {}, 22, kLarge).summary;
  EXPECT_LT(least.min_budget_bytes, kept.min_budget_bytes);
  EXPECT_EQ(least.recurrent[0].gates, "recompute");
  EXPECT_EQ(kept.recurrent[0].gates, "keep");
  EXPECT_LT(static_cast<double>(least.recurrent[0].saved_bytes),
            0.4 * static_cast<double>(kept.recurrent[0].saved_bytes));
}

TEST(Gearbox, FollowsABudgetThatChangesWhileItRuns) {
  TrainOptions options{.steps = 6, .batch = kLarge, .length = 22};
  options.synchronous_planning = true;
  Trainer still(open_model(kTight), options, feed);
  options.budget_schedule = "3:min,5:100%";
  Trainer moved(open_model(kTight), options, feed);
  std::set<std::string> gates;
  for (int i = 0; i < 6; ++i) {
    still.advance();
    const StepReport r = moved.advance();
    gates.insert(moved.summary().recurrent[0].gates);
    EXPECT_LE(r.peak_bytes, r.budget_bytes.value_or(r.peak_bytes));
  }
  EXPECT_EQ(gates, (std::set<std::string>{"keep", "recompute"}));
  EXPECT_EQ(moved.summary().violations, 0);
  EXPECT_EQ(moved.summary().weights_hash, still.summary().weights_hash);
}

TEST(Gearbox, ReadsEachLayer) {
  for (const RecurrentReport& r : train("lstm-lm:hidden=24,chunk=5", {}).summary.recurrent) {
    EXPECT_NE(r.layer, "");
    EXPECT_GT(r.forward_us, 0);
    EXPECT_GT(r.backward_us, 0);
    EXPECT_EQ(r.saved_bytes, 22 * 3 * 24 * 4 * 6);
    EXPECT_GT(r.workspace_bytes, 0);
    ASSERT_TRUE(r.utilisation.has_value());
    EXPECT_GT(*r.utilisation, 0);
    EXPECT_LE(*r.utilisation, 1);
    EXPECT_TRUE(r.miss_source == "hw" || r.miss_source == "modelled" || r.miss_source == "absent") << r.miss_source;
    EXPECT_EQ(r.miss_rate.has_value(), r.miss_source != "absent");
  }
}

TEST(Gearbox, ShortSequencesRun) {
  for (const std::int64_t length : {1, 2}) {
    const Summary rolled = train("lstm-lm:hidden=1,chunk=5", {.gear = "rolled"}, {}, length).summary;
    EXPECT_EQ(train("lstm-lm:hidden=1,chunk=5", {.gear = "unrolled:8"}, {}, length).summary.weights_hash,
              rolled.weights_hash);
    EXPECT_EQ(train("lstm-lm:hidden=1,chunk=5", restless(), {}, length).summary.weights_hash, rolled.weights_hash);
  }
}

TEST(Gearbox, APolicyThatCannotBeUsedIsSaidInOneLine) {
  const Ran ran = train("lstm-lm:hidden=24,chunk=5", {.learnt = "neap-recurrent-policy 99\n"});
  EXPECT_NE(ran.notes.find("another version"), std::string::npos) << ran.notes;
  EXPECT_EQ(ran.notes.find('\n'), std::string::npos);
  EXPECT_EQ(train("lstm-lm:hidden=24,chunk=5", {}).notes, "");
}

TEST(Gearbox, RefusesNonsense) {
  const auto refused = [](const RecurrentTraining& r) {
    EXPECT_THROW(train("lstm-lm:hidden=24,chunk=5", r), UserError) << r.gear << r.gates << r.offered;
  };
  refused({.gear = "sideways"});
  refused({.gear = "unrolled:0"});
  refused({.gates = "open"});
  refused({.offered = ""});
  refused({.epsilon = 2});
  refused({.dwell = 0});
}

}  // namespace
}  // namespace neap
