#include "policy/q_learning/agent.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <sstream>

#include "core/random.h"
#include "neap/error.h"

namespace neap::q_learning {
namespace {

Chain random_chain(std::size_t layers, std::uint64_t seed) {
  RandomStream random(seed, 7);
  Chain out;
  for (std::size_t i = 0; i < layers; ++i) {
    ChainLayer l;
    l.input_bytes = 10 + random.uniform() * 20;
    l.inside_bytes = 20 + random.uniform() * 200;
    l.ms = 0.2 + random.uniform() * 4;
    l.cheap_bytes = l.inside_bytes * random.uniform();
    l.cheap_ms = l.ms * 0.1 * random.uniform();
    l.bandwidth = random.uniform();
    out.layers.push_back(l);
  }
  return out;
}

Chain with_budget(Chain chain, double share) {
  chain.budget = chain.total_bytes() * share;
  return chain;
}

// All sequences of choices; the most reward.
double brute_force(const Chain& chain, std::span<const Choice> offered, const Reward& reward) {
  double best = -INFINITY;
  Choices so_far;
  const std::function<void(std::size_t)> go = [&](std::size_t at) {
    if (at >= chain.layers.size()) {
      const Outcome o = outcome_of(chain, so_far, reward);
      if (o.fits) best = std::max(best, o.reward);
      return;
    }
    for (const Choice& c : offered) {
      so_far.push_back(c);
      go(at + effect_of(chain, at, c).layers);
      so_far.pop_back();
    }
  };
  go(0);
  return best;
}

TEST(CheckpointChain, ExactPlanIsTheBestOfAllOnSmallChains) {
  const std::vector<int> every = {2, 4};
  const std::vector<Choice> offered = choices_of(every);
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const Chain chain = with_budget(random_chain(6, seed), 0.45 + 0.04 * static_cast<double>(seed % 5));
    const auto exact = ExactPlan(chain, offered, {}, 20000).choices();
    const double best = brute_force(chain, offered, {});
    ASSERT_EQ(exact.has_value(), std::isfinite(best)) << seed;
    if (!exact) continue;
    const Outcome o = outcome_of(chain, *exact, {});
    EXPECT_TRUE(o.fits) << seed;
    EXPECT_NEAR(o.reward, best, 1e-3 * std::abs(best) + 1e-9) << seed;
  }
}

TEST(CheckpointChain, LeastBytesIsWhereTheExactPlanEnds) {
  const std::vector<int> every = {2, 4, 8};
  const std::vector<Choice> offered = choices_of(every);
  Chain chain = random_chain(40, 3);
  const double least = least_bytes(chain, offered)[0];
  chain.budget = least * 1.01;
  EXPECT_TRUE(ExactPlan(chain, offered, {}, 4000).choices().has_value());
  chain.budget = least * 0.99;
  EXPECT_FALSE(ExactPlan(chain, offered, {}, 4000).choices().has_value());
}

TEST(QLearning, TaughtByTheExactPlanItIsCloseToItAtOnce) {
  double worst = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const Chain chain = with_budget(random_chain(24, seed), 0.5);
    Agent agent({});
    agent.learn(chain);
    const auto choices = agent.propose(chain);
    const auto exact = ExactPlan(chain, agent.offered(), {}).choices();
    ASSERT_TRUE(choices && exact) << seed;
    const Outcome mine = outcome_of(chain, *choices, {});
    const Outcome best = outcome_of(chain, *exact, {});
    EXPECT_TRUE(mine.fits) << seed;
    worst = std::max(worst, (chain.total_ms() * 3 + mine.added_ms) / (chain.total_ms() * 3 + best.added_ms));
  }
  EXPECT_LT(worst, 1.05);  // of a step: forward, twice that for backward, and what is made again
}

TEST(QLearning, LearnsFromItsOwnEpisodesToo) {
  const Chain chain = with_budget(random_chain(24, 5), 0.5);
  Agent untaught({.epsilon = 0.3, .lessons = 0, .refinements = 0});
  const double before = outcome_of(chain, *untaught.propose(chain), {}).reward;
  Agent alone({.epsilon = 0.3, .lessons = 0, .refinements = 1500});
  alone.learn(chain);
  const double after = outcome_of(chain, *alone.propose(chain), {}).reward;
  EXPECT_GT(after, before + 0.02);
}

TEST(QLearning, WhateverItExploresFits) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Chain chain = random_chain(30, seed);
    Agent agent({.epsilon = 1.0, .seed = seed});
    const double least = least_bytes(chain, agent.offered())[0];
    for (const double room : {1.0, 1.05, 1.3, 2.0}) {
      chain.budget = least * room;
      const auto choices = agent.propose(chain, true);
      ASSERT_TRUE(choices.has_value());
      EXPECT_LE(outcome_of(chain, *choices, {}).peak, chain.budget * (1 + 1e-9));
    }
    chain.budget = least * 0.99;
    EXPECT_FALSE(agent.propose(chain, true).has_value());
  }
}

TEST(QLearning, RewardsChangeWhatItDoes) {
  const Chain roomy = with_budget(random_chain(24, 9), 2.0);
  Agent constrained({});
  constrained.learn(roomy);
  EXPECT_EQ(outcome_of(roomy, *constrained.propose(roomy), {}).added_ms, 0);  // memory is a limit, not a cost
  AgentOptions options;
  options.reward = reward_named("document");
  Agent document(options);
  document.learn(roomy);
  EXPECT_GT(outcome_of(roomy, *document.propose(roomy), {}).added_ms, 0);
  EXPECT_THROW(reward_named("applause"), UserError);
}

TEST(QLearning, WhatWasLearntStartsAnotherNetwork) {
  const Chain first = with_budget(random_chain(18, 1), 0.5);
  Agent teacher({});
  teacher.learn(first);
  std::stringstream file;
  teacher.save(file);
  const Chain second = with_budget(random_chain(50, 2), 0.5);
  Agent untaught({.lessons = 0, .refinements = 0});
  Agent started({.lessons = 0, .refinements = 0});
  started.load(file);
  EXPECT_GE(outcome_of(second, *started.propose(second), {}).reward,
            outcome_of(second, *untaught.propose(second), {}).reward);
}

TEST(QLearning, RefusesBrokenFilesAndNonsense) {
  Agent agent({});
  for (const char* text : {"", "neap-q 2 1024 6", "neap-q 1 3 6", "neap-q 1 1024 6\n0 0\n1 0\n2 1\n2 2\n2 4\n2 9\n",
                           "neap-q 1 1024 6\n0 0\n1 0\n2 1\n2 2\n2 4\n2 8\n99999 1.0 1\n",
                           "neap-q 1 1024 6\n0 0\n1 0\n2 1\n2 2\n2 4\n2 8\n5 nan 1\n",
                           "neap-q 1 1024 6\n0 0\n1 0\n2 1\n2 2\n2 4\n2 8\n5 x\n"}) {
    std::istringstream in(text);
    EXPECT_THROW(agent.load(in), UserError) << text;
  }
  EXPECT_THROW(Agent({.every = {1}}), UserError);
  EXPECT_THROW(Agent({.rate = 2}), UserError);
  EXPECT_THROW(Agent({.epsilon = -1}), UserError);
}

TEST(QLearning, AThousandLayersAreQuickAndTheSameEveryTime) {
  const Chain chain = with_budget(random_chain(1000, 4), 0.4);
  Agent a({.lessons = 4, .refinements = 4});
  Agent b({.lessons = 4, .refinements = 4});
  a.learn(chain);
  b.learn(chain);
  EXPECT_EQ(*a.propose(chain), *b.propose(chain));
}

// Rewards come for what ran before the budget was cut: nothing that the new one allows is left to choose.
TEST(QLearning, WhatRanUnderALargerBudgetTeachesNothing) {
  Agent agent({});
  const Chain chain = random_chain(12, 3);
  const std::optional<Choices> choices = agent.propose(with_budget(chain, 1), false);
  ASSERT_TRUE(choices);
  const std::vector<double> rewards(choices->size(), -1);
  std::ostringstream before;
  agent.save(before);
  for (const double share : {0.6, 0.3, 0.05, 0.0}) agent.reinforce(with_budget(chain, share), *choices, rewards);
  std::ostringstream after;
  agent.save(after);
  EXPECT_EQ(after.str(), before.str());
  agent.reinforce(with_budget(chain, 1), *choices, rewards);
  std::ostringstream taught;
  agent.save(taught);
  EXPECT_NE(taught.str(), before.str());
}

}  // namespace
}  // namespace neap::q_learning
