#include "policy/ppo/standing.h"

#include <gtest/gtest.h>

#include "policy/ppo/agent.h"
#include "policy/ppo/policy_file.h"
#include "policy/ppo/times.h"

namespace neap::ppo {
namespace {

const std::vector<Gear> kGears = default_gears();
const std::vector<Action> kActions = actions_of(kGears);

std::size_t index_of(const Gear& gear) {
  return static_cast<std::size_t>(std::find(kGears.begin(), kGears.end(), gear) - kGears.begin());
}

// With the gates kept.
LayerState state_of(std::int64_t chunk, std::int64_t chunks) {
  LayerState s{.steps = chunk * chunks, .batch = 8, .input = 64, .hidden = 64, .chunk = chunk};
  s.measured_us.resize(kActions.size());
  s.visits.resize(kActions.size());
  for (const Action& a : kActions) s.allowed.push_back(a.keeps_gates);
  return s;
}

void measured(LayerState& s, const Gear& gear, double us, int visits) {
  s.measured_us[index_of(gear)] = us;
  s.visits[index_of(gear)] = visits;
}

Standing judged(const LayerState& s, std::size_t current = kActions.size()) {
  Standing out;
  judge(s, kActions, s.allowed, current, out);
  return out;
}

std::vector<std::string> running(const Standing& y) {
  std::vector<std::string> out;
  for (std::size_t a = 0; a < y.runs.size(); ++a) {
    if (y.runs[a]) out.push_back(kActions[a].gear.text());
  }
  return out;
}
using Names = std::vector<std::string>;

TEST(PpoStanding, EqualCutsAreOne) {
  EXPECT_EQ(running(judged(state_of(8, 4))), (Names{"rolled", "unrolled:2", "unrolled:4", "unrolled:8", "hybrid:8"}));
  EXPECT_EQ(running(judged(state_of(8, 1))), (Names{"rolled", "unrolled:2", "unrolled:4", "unrolled:8"}));
  EXPECT_EQ(running(judged(state_of(16, 4), index_of(Gear::whole()))),
            (Names{"rolled", "unrolled:2", "unrolled:4", "unrolled:8", "whole", "hybrid:8"}));
  LayerState s = state_of(16, 4);
  measured(s, Gear::unrolled(16), 10, 1);  // what was measured stands for the other, whichever runs
  EXPECT_FALSE(judged(s, index_of(Gear::whole())).runs[index_of(Gear::whole())]);
}

TEST(PpoStanding, WhatTwoGearsTellOfTheOthersIsNotRun) {
  LayerState s = state_of(16, 4);
  measured(s, Gear::whole(), 100, 2);
  measured(s, Gear::unrolled(8), 106, 1);
  const Standing y = judged(s);
  EXPECT_TRUE(y.is_open);
  EXPECT_EQ(running(y), (Names{"unrolled:8", "whole"}));
  EXPECT_NEAR(y.us[index_of(Gear::unrolled(4))], 118, 1e-6);  // 94 + 96 / X
  EXPECT_NEAR(y.us[index_of(Gear::rolled())], 190, 1e-6);
  EXPECT_NEAR(y.us[index_of(Gear::hybrid(8))], 94 + 96 * 57 / 64.0, 1e-6);
  EXPECT_NEAR(y.weights[index_of(Gear::rolled())], 0.1 / 0.9, 1e-6);
  EXPECT_EQ(y.weights[index_of(Gear::whole())], 1);
  EXPECT_EQ(y.weights[index_of(Gear::unrolled(16))], 0);  // the same as whole
}

TEST(PpoStanding, NothingIsInQuestionAfterEnoughVisits) {
  LayerState s = state_of(16, 4);
  measured(s, Gear::whole(), 100, 3);
  measured(s, Gear::unrolled(8), 106, 2);
  EXPECT_FALSE(judged(s).is_open);
  EXPECT_EQ(running(judged(s)), (Names{"whole"}));
  measured(s, Gear::unrolled(8), 101, 2);  // too near to tell
  EXPECT_TRUE(judged(s).is_open);
  measured(s, Gear::unrolled(8), 100.3, 3);  // as good
  EXPECT_FALSE(judged(s).is_open);
  EXPECT_EQ(running(judged(s)), (Names{"unrolled:8", "whole"}));
}

// Two that chance makes seem to fall towards short pieces: only the next one is looked at.
TEST(PpoStanding, LooksStepByStep) {
  LayerState s = state_of(16, 4);
  measured(s, Gear::whole(), 101, 3);
  measured(s, Gear::unrolled(8), 100, 3);
  EXPECT_EQ(running(judged(s)), (Names{"unrolled:4"}));
  measured(s, Gear::unrolled(4), 104, 2);
  EXPECT_FALSE(judged(s).is_open);
  EXPECT_EQ(running(judged(s)), (Names{"unrolled:8"}));
}

TEST(PpoTimes, TheLeastOfTheLastFewStandsForAnAction) {
  Times times;
  times.reset(2, 4);
  LayerState s;
  const auto note = [&](std::vector<std::size_t> taken, std::vector<double> us) {
    times.note(taken, us);
    times.tell(s);
  };
  note({0, 0, 0, 0}, {90, 90, 90, 90});  // warms up
  EXPECT_EQ(s.measured_us, (std::vector<double>{0, 0}));
  note({0, 0, 0, 0}, {8, 10, 10, 12});
  note({0, 0, 0, 0}, {40, 40, 40, 40});
  EXPECT_NEAR(s.measured_us[0], 10, 1e-9);
  EXPECT_EQ(s.visits, (std::vector<int>{2, 0}));
  note({0, 1, 1, 0}, {10, 20, 20, 10});  // a try
  EXPECT_NEAR(s.measured_us[1], 20, 1.5);
  note({0, 0, 1, 0}, {10, 10, 90, 10});  // one chunk alone says nothing new
  EXPECT_EQ(s.visits[1], 1);
  EXPECT_NEAR(times.best_us(), 10, 1);
}

TEST(PpoTimes, WhatSlowsOneDownSlowsAll) {
  Times times;
  times.reset(2, 1);
  LayerState s;
  const auto note = [&](std::size_t action, double us) {
    times.note({&action, 1}, {&us, 1});
    times.tell(s);
  };
  for (const double us : {10, 10, 10, 10}) note(0, us);
  note(1, 15);
  note(1, 15);
  for (int i = 0; i < 2; ++i) note(0, 25);  // two slow ones may be chance
  EXPECT_NEAR(s.measured_us[0], 10, 1e-9);
  EXPECT_EQ(s.visits[1], 2);
  note(0, 25);
  EXPECT_NEAR(s.measured_us[0], 25, 1e-9);
  EXPECT_NEAR(s.measured_us[1], 37.5, 1e-9);
  EXPECT_EQ(s.visits[1], 0);
  note(0, 10);  // nothing is fast by chance
  EXPECT_NEAR(s.measured_us[1], 15, 1e-9);
}

// A made-up machine: a step takes a + b * pieces, times what the place in the sequence and chance add.
class Machine {
 public:
  Machine(std::int64_t chunk, std::int64_t chunks, double piece, std::uint64_t seed)
      : state_(state_of(chunk, chunks)),
        agent_({.ppo = {.epsilon = 0.01}, .seed = seed}),
        random_(seed),
        piece_(piece),
        us_(static_cast<std::size_t>(chunks)),
        taken_(us_.size()) {
    agent_.network().load(default_learnt().weights);
    times_.reset(kActions.size(), us_.size());
    times_.tell(state_);
    current_ = agent_.best(kActions.size(), state_);
  }

  double cost(std::size_t a) const { return 1 + piece_ * pieces_a_step(kActions[a].gear, state_.steps, state_.chunk); }
  double best() const {
    double out = cost(0);
    for (std::size_t a = 0; a < kGears.size(); ++a) out = std::min(out, cost(a));
    return out;
  }
  // The cost of a sequence, chance apart.
  double sequence() {
    agent_.begin_sequence(0);
    double sum = 0;
    for (std::size_t k = 0; k < us_.size(); ++k) {
      taken_[k] = current_ = agent_.select_execution_profile(0, current_, state_);
      sum += cost(current_) / static_cast<double>(us_.size());
      const double chance = random_.uniform() < 0.01 ? 1.5 : 1 + 0.005 * std::abs(random_.normal());
      us_[k] = cost(current_) * slow * chance * (k == 0 ? 0.95 : 1);
    }
    times_.note(taken_, us_);
    times_.tell(state_);
    agent_.end_sequence(0, std::vector<double>(us_.size(), 0.0));
    return sum;
  }
  double slow = 1;
  double& piece() { return piece_; }

 private:
  LayerState state_;
  Agent agent_;
  Times times_;
  RandomStream random_;
  double piece_;
  std::vector<double> us_;
  std::vector<std::size_t> taken_;
  std::size_t current_ = 0;
};

// Exploration counted: of all sequences after the tenth, within 3 % of the best static gear.
TEST(PpoStanding, TenSequencesAreEnough) {
  int worse = 0;
  int runs = 0;
  for (const std::int64_t chunk : {8, 16, 32}) {
    for (const std::int64_t chunks : {2, 4, 8}) {
      for (const double piece : {0.05, 0.5, 3.0}) {
        for (const std::uint64_t seed : {1, 2}) {
          Machine m(chunk, chunks, piece, seed);
          for (int i = 0; i < 10; ++i) m.sequence();
          double sum = 0;
          for (int i = 0; i < 40; ++i) sum += m.sequence() / 40;
          worse += sum > 1.03 * m.best() ? 1 : 0;
          ++runs;
        }
      }
    }
  }
  EXPECT_LE(worse, runs / 8);  // chance strikes one chunk in a hundred
}

TEST(PpoStanding, LooksAgainWhenTheMachineChanges) {
  Machine m(16, 4, 1.0, 3);
  for (int i = 0; i < 15; ++i) m.sequence();
  m.slow = 2;
  m.piece() = -0.4;  // now short pieces are better
  for (int i = 0; i < 40; ++i) m.sequence();
  double sum = 0;
  for (int i = 0; i < 20; ++i) sum += m.sequence() / 20;
  EXPECT_LT(sum, 1.05 * m.best());
}

}  // namespace
}  // namespace neap::ppo
