#include "train/race.h"

#include <gtest/gtest.h>

#include <random>

#include "train/rounded.h"

namespace neap {
namespace {

// A plan that can be told from others.
Plan plan_of(std::int64_t bytes, bool spills = false) {
  Plan out;
  out.peak_bytes = bytes;
  if (spills) out.slots = {64};
  return out;
}

// Runs the race with plan b taking ms[b] of a step, the first step of a visit twice that; returns the steps it took.
int run(Race& race, const std::vector<double>& ms, double noise = 0, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::exponential_distribution<double> late(1);
  int steps = 0;
  bool is_new = true;
  while (!race.is_over()) {
    const double each = ms[static_cast<std::size_t>(race.running().peak_bytes)];
    is_new = race.add((is_new ? 2 : 1) * each * (1 + noise * late(random)));
    ++steps;
  }
  return steps;
}

TEST(Race, TheShortestStepsWinWhoeverBegan) {
  for (const double second : {98.0, 102.0}) {
    Race race({plan_of(0), plan_of(1)});
    EXPECT_EQ(race.running().peak_bytes, 0);
    EXPECT_EQ(run(race, {100, second}), 21);
    EXPECT_EQ(race.running().peak_bytes, second < 100 ? 1 : 0);
    EXPECT_FALSE(race.add(1));  // nothing moves any more
  }
}

TEST(Race, WhatIsFarBehindRunsNoSecondRound) {
  Race race({plan_of(0), plan_of(1)});
  EXPECT_EQ(run(race, {112, 100}), 9);
  EXPECT_EQ(race.running().peak_bytes, 1);
  EXPECT_NEAR(race.lost_steps(), 8 * 1.12 + 4 - 9, 1e-9);
  Race closer({plan_of(0), plan_of(1)});
  EXPECT_EQ(run(closer, {106, 100}), 15) << "what is not so far behind has one";
  EXPECT_EQ(closer.running().peak_bytes, 1);

  Race three({plan_of(0), plan_of(1), plan_of(2)});
  EXPECT_EQ(run(three, {100, 130, 98}), 3 + 9 + 6 + 6) << "who ends a round has begun the next";
  EXPECT_EQ(three.running().peak_bytes, 2);
}

TEST(Race, OfManyFewGoOn) {
  Race race({plan_of(0), plan_of(1), plan_of(2), plan_of(3), plan_of(4)});
  EXPECT_EQ(run(race, {102, 101, 100, 99, 98}), 15 + 3 + 9 + 3 + 6 + 3) << "who began is out, so others begin";
  EXPECT_EQ(race.running().peak_bytes, 4);
}

TEST(Race, PlansThatDecideTheSameRunOnce) {
  const auto plan = [](std::int64_t bytes, std::vector<Action> actions) {
    Plan out = plan_of(bytes);
    for (std::uint32_t i = 0; i < actions.size(); ++i) out.instructions.push_back({.action = actions[i], .node = {i}});
    return out;
  };
  const std::vector<Action> kept = {Action::kRun, Action::kRun};
  const std::vector<Action> other = {Action::kRun, Action::kRecompute};
  const auto ms = [](const Plan& p) { return static_cast<double>(p.peak_bytes); };
  const auto bytes = [&](std::vector<Plan> offered, std::optional<Plan> former) {
    std::vector<std::int64_t> out;
    for (const Plan& each : entrants_of(std::move(offered), plan(1000, kept), std::move(former), 5000, ms)) {
      out.push_back(each.peak_bytes);
    }
    return out;
  };
  using Bytes = std::vector<std::int64_t>;
  EXPECT_EQ(bytes({plan(995, kept)}, std::nullopt), (Bytes{1000})) << "nothing is new";
  EXPECT_EQ(bytes({plan(980, kept)}, std::nullopt), (Bytes{980, 1000})) << "transfers that are placed better";
  EXPECT_EQ(bytes({plan(995, other)}, std::nullopt), (Bytes{995, 1000}));
  EXPECT_EQ(bytes({plan(995, other), plan(996, other)}, plan(1001, kept)), (Bytes{995, 1000}));
}

TEST(Race, NoiseSeldomDecides) {
  int wrong = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    Race race({plan_of(0), plan_of(1)});
    run(race, {108, 100}, 0.04, seed);
    wrong += race.running().peak_bytes == 1 ? 0 : 1;
    Race other({plan_of(0), plan_of(1)});
    run(other, {100, 108}, 0.04, seed);
    wrong += other.running().peak_bytes == 0 ? 0 : 1;
  }
  EXPECT_LE(wrong, 8);
}

// Something else has the machine for many steps, and more of one plan than of the other.
TEST(Race, ABurstDecidesNothing) {
  for (const int begins : {5, 6, 7, 11}) {
    Race race({plan_of(0), plan_of(1)});
    for (int step = 0; !race.is_over(); ++step) {
      const double ms = race.running().peak_bytes == 0 ? 100 : 102;
      race.add(step >= begins && step < begins + 8 ? 2 * ms : ms);
    }
    EXPECT_EQ(race.running().peak_bytes, 0) << begins;
  }
}

// The machine gets faster or slower for good, by more than plans differ: who runs behind that is not the better one.
TEST(Race, AMachineThatChangesItsPaceDecidesNothing) {
  for (const double pace : {0.7, 1.4}) {
    for (int at = 0; at < 20; ++at) {
      for (const bool is_first_better : {false, true}) {
        Race race({plan_of(0), plan_of(1), plan_of(2)});
        for (int step = 0; !race.is_over(); ++step) {
          const double ms[] = {is_first_better ? 100.0 : 104.0, 104, is_first_better ? 104.0 : 100.0};
          race.add((step < at ? 1 : pace) * ms[race.running().peak_bytes]);
        }
        EXPECT_EQ(race.running().peak_bytes, is_first_better ? 0 : 2) << pace << " from step " << at;
      }
    }
  }
}

TEST(Race, OnAMachineThatIsNeverSteadyItEnds) {
  Race race({plan_of(0), plan_of(1)});
  std::mt19937 random(1);
  std::uniform_real_distribution<double> pace(1, 3);
  int steps = 0;
  for (; !race.is_over(); ++steps) race.add(100 * pace(random));
  EXPECT_LE(steps, 3 + 5 * 6);
}

TEST(Race, OneDisturbedStepEndsNoRace) {
  for (const int disturbed : {1, 2, 4, 5}) {
    Race race({plan_of(0), plan_of(1)});
    for (int step = 0; !race.is_over(); ++step) {
      const double ms = race.running().peak_bytes == 0 ? 100 : 102;
      race.add(step == disturbed ? 2 * ms : ms);
    }
    EXPECT_EQ(race.running().peak_bytes, 0) << disturbed;
  }
}

// Both steps of a plan's first visit, by less than would make it hopeless.
TEST(Race, ADisturbedVisitEndsNoRace) {
  Race race({plan_of(0), plan_of(1)});
  for (int step = 0; !race.is_over(); ++step) {
    const double ms = race.running().peak_bytes == 0 ? 100 : 106;
    race.add(step < 3 ? 1.14 * ms : ms);
  }
  EXPECT_EQ(race.running().peak_bytes, 0);
}

TEST(Race, StepsThatTakeNoTimeEndIt) {
  Race race({plan_of(0), plan_of(1), plan_of(2), plan_of(3), plan_of(4)});
  for (int step = 0; !race.is_over(); ++step) {
    ASSERT_LT(step, 1000);
    race.add(0);
  }
}

TEST(Race, WhatTheSimulatorCallsMuchWorseDoesNotRun) {
  const auto ms = [](const Plan& p) { return static_cast<double>(p.peak_bytes); };
  const Plan present = plan_of(100);
  const auto bytes = [&](std::vector<Plan> offered, std::optional<Plan> former, std::int64_t limit = 1000) {
    std::vector<std::int64_t> out;
    for (const Plan& each : entrants_of(std::move(offered), present, std::move(former), limit, ms)) {
      out.push_back(each.peak_bytes);
    }
    return out;
  };
  using Bytes = std::vector<std::int64_t>;
  EXPECT_EQ(bytes({plan_of(90)}, std::nullopt), (Bytes{90, 100}));
  EXPECT_EQ(bytes({plan_of(115)}, plan_of(110)), (Bytes{115, 100, 110}));
  EXPECT_EQ(bytes({plan_of(130)}, plan_of(125)), (Bytes{100}));
  EXPECT_EQ(bytes({plan_of(130, true)}, std::nullopt), (Bytes{100})) << "the first is the one the simulator is for";
  EXPECT_EQ(bytes({plan_of(90), plan_of(200, true), plan_of(200)}, std::nullopt), (Bytes{90, 200, 100}));
  EXPECT_EQ(bytes({plan_of(100)}, std::nullopt), (Bytes{100})) << "each once";
  EXPECT_EQ(bytes({plan_of(80)}, std::nullopt, 90), (Bytes{80})) << "what runs is too large by now";
  EXPECT_EQ(bytes({plan_of(80), plan_of(89)}, plan_of(95), 90), (Bytes{80, 89}));
}

TEST(Race, TakesNoMoreMemoryThanItHas) {
  const auto ms = [](const Plan& p) { return static_cast<double>(p.peak_bytes); };
  const auto plan = [](std::int64_t bytes) {
    Plan out = plan_of(bytes);
    out.blocks.resize(10);
    return out;
  };
  const std::int64_t each = own_bytes(plan(100));
  const auto count = [&](std::int64_t room) {
    return entrants_of({plan(90), plan(91), plan(92)}, plan(100), plan(95), 1000, ms, room).size();
  };
  EXPECT_EQ(count(0), 2U) << "what is offered and what runs have their place";
  EXPECT_EQ(count(3 * each), 3U);
  EXPECT_EQ(count(4 * each), 4U);
  EXPECT_EQ(count(9 * each), 4U);
}

TEST(Race, RestsGrowLongerAndEndWithWhatRaced) {
  RaceRest rest;
  EXPECT_TRUE(rest.is_over(0)) << "the first race may be at once";
  std::int64_t step = 5;
  for (const std::int64_t steps : {32, 64, 128, 256, 256}) {
    rest.begin(step, 0);
    EXPECT_FALSE(rest.is_over(step + steps - 1)) << steps;
    EXPECT_TRUE(rest.is_over(step + steps)) << steps;
    step += steps;
  }
  rest.begin(step, 0);
  rest.forget();
  EXPECT_TRUE(rest.is_over(step));
  rest.begin(step, 0);
  EXPECT_TRUE(rest.is_over(step + 32)) << "as if there had been none";
}

TEST(Race, RestsUntilItsCostIsAHundredth) {
  RaceRest rest;
  rest.begin(10, 0.5);
  EXPECT_FALSE(rest.is_over(10 + 49));
  EXPECT_TRUE(rest.is_over(10 + 50));
  rest.begin(100, 1000);
  EXPECT_FALSE(rest.is_over(100 + 255));
  EXPECT_TRUE(rest.is_over(100 + 256)) << "not for ever: conditions change";
}

}  // namespace
}  // namespace neap
