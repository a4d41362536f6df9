#include "policy/dqn/agent.h"

#include <gtest/gtest.h>

#include "neap/error.h"

namespace neap::dqn {
namespace {

const std::vector<Strategy> kLibrary = {Strategy::kCompute, Strategy::kMemory};

State piece(double ms, bool is_compute_bound) {
  return {
      .nodes = 10, .gflop = ms / 10, .bytes = ms * 1e6, .ms = ms, .share = 0.4, .is_compute_bound = is_compute_bound};
}

TEST(StrategyAgent, StartsAsTheTable) {
  Agent agent(kLibrary, {});
  EXPECT_EQ(agent.choose(piece(10, true)), 1);
  EXPECT_EQ(agent.choose(piece(10, false)), 2);
  const std::vector<Strategy> compute_only = {Strategy::kCompute};
  Agent has_no_memory_set(compute_only, {});
  EXPECT_EQ(has_no_memory_set.choose(piece(10, false)), 0);
}

// A machine on which the table is wrong: long pieces gain by the memory set whatever bounds them, short ones by
// nothing.
TEST(StrategyAgent, LearnsWhereTheTableIsWrong) {
  Agent agent(kLibrary, {.training_epochs = 200});
  for (int i = 0; i < 32; ++i) {
    const bool is_compute_bound = i % 2 == 0;
    const double ms = i % 4 < 2 ? 100 + i : 0.1 + 0.01 * i;
    const bool is_long = ms > 50;
    agent.remember(piece(ms, is_compute_bound), 0, 0);
    agent.remember(piece(ms, is_compute_bound), 1, -0.1);
    agent.remember(piece(ms, is_compute_bound), 2, is_long ? 0.2 : -0.2);
  }
  agent.learn();
  for (const bool is_compute_bound : {false, true}) {
    EXPECT_EQ(agent.choose(piece(110, is_compute_bound)), 2);
    EXPECT_EQ(agent.choose(piece(0.2, is_compute_bound)), 0);
  }
  EXPECT_NEAR(agent.values(piece(110, true))[2], 0.2, 0.1);
  EXPECT_LT(agent.bytes(), 64 * 1024);
}

TEST(StrategyAgent, DependsOnItsSeedAlone) {
  const auto value = [] {
    Agent agent(kLibrary, {.training_epochs = 3, .seed = 5});
    agent.remember(piece(3, true), 1, 0.5);
    agent.learn();
    return agent.values(piece(3, true));
  };
  EXPECT_EQ(value(), value());
}

TEST(StrategyAgent, ForgetsTheOldest) {
  Agent agent(kLibrary, {.replay = 4});
  for (int i = 0; i < 9; ++i) agent.remember(piece(1, true), 0, i);
  EXPECT_EQ(agent.remembered(), 4U);
}

TEST(StrategyAgent, RewardsTimeAndSparedBandwidth) {
  EXPECT_DOUBLE_EQ(reward_of({}, 10, 8, 0.5, 0.5), 0.2);
  EXPECT_GT(reward_of({}, 10, 8, 0.5, 0.3), reward_of({}, 10, 8, 0.5, 0.5));
  EXPECT_LT(reward_of({}, 10, 12, 0.5, 0.5), 0);
  EXPECT_THROW(Agent(kLibrary, {.training_epochs = 0}), UserError);
}

}  // namespace
}  // namespace neap::dqn
