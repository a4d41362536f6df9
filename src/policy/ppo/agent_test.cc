#include "policy/ppo/agent.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/clock.h"
#include "neap/error.h"
#include "policy/ppo/policy_file.h"
#include "policy/ppo/pretrain.h"

namespace neap::ppo {
namespace {

const std::vector<Gear> kGears = {Gear::rolled(), Gear::unrolled(8), Gear::whole()};

LayerState state_for(const Agent& agent) {
  return {.steps = 64,
          .batch = 8,
          .input = 64,
          .hidden = 64,
          .chunk = 16,
          .allowed = std::vector<bool>(agent.actions().size(), true),
          .measured_us = std::vector<double>(agent.actions().size(), 0.0)};
}

TEST(PpoAgent, ActionsAreGearsTimesGatePolicies) {
  const auto actions = actions_of(kGears);
  ASSERT_EQ(actions.size(), 6U);
  EXPECT_EQ(actions[1], (Action{Gear::unrolled(8), true}));
  EXPECT_EQ(actions[4], (Action{Gear::unrolled(8), false}));
}

// Choices come as often as the agent says: that is what the ratios stand on.
TEST(PpoAgent, ProbabilitiesAreThoseOfTheMixture) {
  Agent agent({.gears = kGears, .ppo = {.epsilon = 0.5}, .dwell = 1, .most_switches = 1 << 20});
  LayerState state = state_for(agent);
  state.allowed[2] = false;
  std::vector<double> said(agent.actions().size());
  std::vector<int> counts(agent.actions().size());
  constexpr int kDraws = 4000;
  for (int i = 0; i < kDraws; ++i) {
    agent.begin_sequence(0);
    const std::size_t a = agent.select_execution_profile(0, 0, state);
    said[a] = agent.last_probability();
    ++counts[a];
  }
  double sum = 0;
  for (std::size_t a = 0; a < counts.size(); ++a) {
    EXPECT_NEAR(static_cast<double>(counts[a]) / kDraws, said[a], 0.03) << a;
    EXPECT_GT(said[a], a == 2 ? -1 : 0.5 / 5 - 1e-6);  // exploring alone gives as much
    sum += said[a];
  }
  EXPECT_EQ(counts[2], 0);
  EXPECT_NEAR(sum, 1, 1e-5);
}

// Before anything is learnt, the policy that learns is the one that acted: ratios of one, exploration or not.
TEST(PpoAgent, RatiosStartAtOne) {
  for (const double epsilon : {0.0, 0.1, 1.0}) {
    Agent agent({.gears = kGears, .ppo = {.epsilon = epsilon}, .dwell = 1, .most_switches = 1 << 20});
    const LayerState state = state_for(agent);
    std::vector<double> rewards;
    agent.begin_sequence(0);
    for (int i = 0; i < 20; ++i) {
      agent.select_execution_profile(0, 0, state);
      rewards.push_back(i % 3);
    }
    agent.end_sequence(0, rewards);
    agent.learn(1);
    ASSERT_EQ(agent.network().ratios().size(), 20U);
    for (const double r : agent.network().ratios()) EXPECT_NEAR(r, 1, 1e-4);
  }
}

TEST(PpoAgent, ABatchIsNeverInMemoryAsAWhole) {
  constexpr std::size_t kActions = 14;
  ActorCritic network(kActions, {}, 1);
  const Moment moment = {.rows = std::vector<Row>(kActions), .allowed = std::vector<bool>(kActions, true)};
  const std::vector<Moment> batch(static_cast<std::size_t>(ActorCritic::kBatch) + 3, moment);
  network.learn(batch, 1);
  EXPECT_EQ(network.ratios().size(), 3U);
  network.learn({batch.data(), batch.size() - 3}, 1);
  EXPECT_EQ(network.ratios().size(), static_cast<std::size_t>(ActorCritic::kBatch));
  EXPECT_LT(network.bytes(), 192 << 10);
}

TEST(PpoAgent, RatioIsThatOfTheMixture) {
  const PpoOptions o = {.epsilon = 0.2};
  ActorCritic network(2, o, 1);
  const std::vector<Row> rows = {Row{0.5F}, Row{0, 0.5F}};
  const std::vector<bool> all = {true, true};
  const double p = network.evaluate(rows, all).policy[0];
  const Moment moment = {.rows = rows, .allowed = all, .action = 0, .probability = 0.25, .explore = 0.1};
  network.learn({&moment, 1}, 1);
  EXPECT_NEAR(network.ratios().at(0), ((1 - 0.2) * p + 0.1) / 0.25, 1e-4);
}

// One sequence of choices that are told apart by nothing but their reward, then a lesson.
void play(Agent& agent, const LayerState& state, std::size_t good) {
  std::vector<double> rewards;
  agent.begin_sequence(0);
  for (int i = 0; i < 32; ++i) rewards.push_back(agent.select_execution_profile(0, 0, state) == good ? 0 : -1);
  agent.end_sequence(0, rewards);
}

TEST(PpoAgent, LearnsWhatPays) {
  for (const std::uint64_t seed : {0, 1, 2}) {
    for (const std::size_t good : {0U, 2U, 4U}) {
      Agent agent({.gears = kGears, .ppo = {.lr = 1e-2}, .dwell = 1, .most_switches = 1 << 20, .seed = seed});
      const LayerState state = state_for(agent);
      for (int round = 0; round < 50; ++round) {
        play(agent, state, good);
        agent.learn();
      }
      EXPECT_EQ(agent.best(0, state), good) << seed;
      agent.select_execution_profile(0, 0, state);
      EXPECT_GT(agent.last_probability(), 0.5) << seed;
    }
  }
}

TEST(PpoAgent, LearnsWhatPaysWhere) {
  Agent agent({.gears = kGears, .ppo = {.lr = 1e-2}, .dwell = 1, .most_switches = 1 << 20});
  LayerState small = state_for(agent);
  small.batch = 1;
  LayerState large = state_for(agent);
  large.batch = 256;
  for (int round = 0; round < 150; ++round) {
    play(agent, small, 1);
    play(agent, large, 3);
    agent.learn();
  }
  EXPECT_EQ(agent.best(0, small), 1U);
  EXPECT_EQ(agent.best(0, large), 3U);
}

TEST(PpoAgent, HardLimitsHold) {
  Agent agent({.gears = kGears, .ppo = {.epsilon = 1}, .dwell = 1, .most_switches = 1 << 20});
  LayerState state = state_for(agent);
  state.allowed = {false, false, true, false, false, false};
  for (int i = 0; i < 50; ++i) EXPECT_EQ(agent.select_execution_profile(0, 0, state), 2U);
  state.allowed.assign(6, false);
  EXPECT_THROW(agent.select_execution_profile(0, 0, state), InternalError);
}

TEST(PpoAgent, StaysForItsTimeAndSwitchesNoOftenerThanAllowed) {
  constexpr int kDwell = 3;
  Agent agent({.gears = kGears, .ppo = {.epsilon = 1}, .dwell = kDwell, .most_switches = 2});
  const LayerState state = state_for(agent);
  for (int s = 0; s < 20; ++s) {
    agent.begin_sequence(0);
    std::size_t current = 0;
    int switches = 0;
    int since = kDwell;
    for (int i = 0; i < 30; ++i) {
      const std::size_t next = agent.select_execution_profile(0, current, state);
      if (next != current) {
        EXPECT_GE(since, i > 0 ? kDwell : 0);
        ++switches;
        since = 0;
      }
      ++since;
      current = next;
    }
    EXPECT_LE(switches, 2);
  }
}

TEST(PpoAgent, AnAbsentReadingWeighsNothing) {
  const RewardParts parts = {.us = 12, .best_us = 10};
  EXPECT_NEAR(reward_of(parts), -0.2, 1e-9);
  EXPECT_LT(reward_of({.us = 12, .best_us = 10, .miss_rate = 0.5}), reward_of(parts));
  EXPECT_EQ(reward_of({.us = 12, .best_us = 10, .miss_rate = 0.0}), reward_of(parts));
  EXPECT_LT(reward_of({.us = 12, .best_us = 10, .switch_us = 1}), reward_of(parts));
  EXPECT_EQ(reward_of({}), 0);
}

std::vector<Measured> made_up_table() {
  std::vector<Measured> out;
  for (const std::int64_t batch : {1, 64}) {  // whole is best for small batches, 8 for large ones
    Measured m{.setting = {.batch = batch, .input = 64, .hidden = 64}};
    m.us = batch == 1 ? std::vector<double>{3, 1.3, 1, 4, 1.7, 1.4} : std::vector<double>{1.6, 1, 1.3, 2, 1.4, 1.7};
    out.push_back(m);
  }
  return out;
}

TEST(PpoAgent, PretrainingFindsTheBestOfATable) {
  Agent agent({.gears = kGears, .ppo = {.epsilon = 0.05, .lr = 5e-3}});
  const auto table = made_up_table();
  const double before = regret(agent, table);
  pretrain(agent, table, {.rounds = 40, .episodes = 24}, [](int, double) {});
  EXPECT_LT(regret(agent, table), 0.05) << "before " << before;
}

TEST(PpoAgent, RefusesNonsense) {
  EXPECT_THROW(Agent({.gears = {}}), UserError);
  EXPECT_THROW(Agent({.ppo = {.epsilon = 1.5}}), UserError);
  EXPECT_THROW(Agent({.dwell = 0}), UserError);
  EXPECT_THROW(Agent({.most_switches = -1}), UserError);
}

TEST(PpoPolicyFile, ThereAndBack) {
  Agent agent({.gears = kGears});
  const std::string text = to_text({"any", agent.network().weights()});
  const Learnt back = parse_learnt(text);
  EXPECT_EQ(back.weights, agent.network().weights());
  EXPECT_EQ(back.machine, "any");
  std::string why;
  EXPECT_EQ(usable_learnt(text, why).weights, agent.network().weights());
  EXPECT_EQ(why, "");
}

TEST(PpoPolicyFile, BrokenFilesAreRefusedAndTheDefaultIsUsed) {
  Agent agent({.gears = kGears});
  const std::string good = to_text({"any", agent.network().weights()});
  std::vector<std::string> bad = {"x", "neap-recurrent-policy 2\n", good + "more\n",
                                  "neap-recurrent-policy 1\nfeatures 23\nmachine any\ntensor a 99999999999\n"};
  for (std::size_t size = 1; size < good.size(); size += 97) bad.push_back(good.substr(0, size));
  for (std::size_t at = 30; at < good.size(); at += 211) {
    bad.push_back(good);
    bad.back()[at] = bad.back()[at] == '1' ? '2' : '1';
  }
  NetworkWeights others = agent.network().weights();
  others.begin()->second.pop_back();
  bad.push_back(to_text({"any", others}));
  NetworkWeights huge = agent.network().weights();
  huge.begin()->second[0] = 1e30F;
  bad.push_back(to_text({"any", huge}));
  bad.push_back(to_text({"another machine", agent.network().weights()}));
  for (const std::string& text : bad) {
    std::string why;
    EXPECT_EQ(usable_learnt(text, why).weights, default_learnt().weights);
    EXPECT_NE(why, "") << text.substr(0, 60);
    EXPECT_EQ(why.find('\n'), std::string::npos);
  }
}

TEST(PpoPolicyFile, TheDefaultLoadsInMilliseconds) {
  const auto start = Clock::now();
  const Learnt learnt = parse_learnt(to_text(default_learnt()));
  Agent agent({});
  agent.network().load(learnt.weights);
  EXPECT_LT(ms_since(start), 500);  // some milliseconds where the machine has nothing else to do
}

}  // namespace
}  // namespace neap::ppo
