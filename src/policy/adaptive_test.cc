#include "policy/adaptive.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <utility>

#include "device/device.h"
#include "graph/op.h"
#include "neap/builtin_models.h"
#include "plan/simulate.h"
#include "plan/validate.h"
#include "policy/storable.h"
#include "runtime/prepare.h"
#include "train/model_spec.h"
#include "train/setup.h"

namespace neap {
namespace {

// A transformer with times that nobody measured, but that differ from op to op.
class Adaptive : public ::testing::Test {
 protected:
  Adaptive() : device_(make_null_device()), program_(make_program()) {
    program_.costs.ms.clear();
    for (std::size_t i = 0; i < program_.graph.nodes.size(); ++i) {
      const Node& node = program_.graph.nodes[i];
      program_.costs.ms.push_back(node.op->cheap ? 0.1 : 1.0 + 0.1 * static_cast<double>(i % 7));
    }
    stored_ = store_all_policy().smallest(problem());
  }

  Program make_program(std::string_view model = "gpt-mini", std::int64_t batch = 2, std::int64_t length = 32) {
    TrainOptions options;
    options.batch = batch;
    options.length = length;
    return prepare(build_training(make_spec(open_builtin_model(model), options), options), *device_);
  }

  PlanningProblem problem() const { return {.graph = program_.graph, .costs = program_.costs}; }
  std::int64_t share(double part) const {
    const auto rest = static_cast<double>(stored_.peak_bytes - stored_.state_bytes);
    return stored_.state_bytes + static_cast<std::int64_t>(rest * part);
  }

  std::unique_ptr<Device> device_;
  Program program_;
  Plan stored_;
};

TEST_F(Adaptive, BeginsWithEveryLayerAtGranularityOne) {
  const AdaptivePolicy policy({}, "");
  const Plan every = every_layer_policy().smallest(problem());
  const Plan first = first_plan(policy, problem(), share(0.9));
  EXPECT_EQ(first, every);
  const std::int64_t tight = every.peak_bytes - 1;
  EXPECT_LE(first_plan(policy, problem(), tight).peak_bytes, tight);  // where that does not fit: what does
}

TEST_F(Adaptive, IsNoSlowerThanTheExactPlan) {
  const AdaptivePolicy policy({}, "");
  for (const double part : {0.9, 0.7, 0.5}) {
    const std::optional<Plan> exact = oracle_policy().within(problem(), share(part));
    const std::optional<Plan> plan = policy.within(problem(), share(part));
    ASSERT_TRUE(exact && plan) << part;
    EXPECT_LE(plan->peak_bytes, share(part));
    EXPECT_FALSE(validate(*plan, program_.graph, program_.costs));
    EXPECT_LE(simulate(*plan, program_.costs).ms, simulate(*exact, program_.costs).ms * 1.0001) << part;
  }
}

// Whatever the link can carry leaves, and only the rest is computed again: at a middling rate, both together are faster
// than either alone.
TEST_F(Adaptive, SpillsAndComputesAgainTogether) {
  const AdaptivePolicy policy({}, "", true);
  const std::int64_t budget = share(0.5);
  bool does_both = false;
  for (const double rate : {3e3, 3e4, 1e7}) {
    PlanningProblem p = problem();
    p.link = {.write_bytes_per_ms = rate, .read_bytes_per_ms = rate};
    const std::optional<Plan> plan = policy.within(p, budget);
    ASSERT_TRUE(plan) << rate;
    EXPECT_LE(plan->peak_bytes, budget);
    EXPECT_FALSE(validate(*plan, program_.graph, program_.costs));
    const auto ms_of = [&](const Plan& any) { return simulate(any, p.costs, p.link).ms; };
    const double again = ms_of(*oracle_policy().within(p, budget));
    const double out = ms_of(*spill_policy().within(p, budget));
    EXPECT_LE(ms_of(*plan), std::min(again, out) * 1.0001) << rate;
    does_both |= ms_of(*plan) < 0.99 * std::min(again, out);
  }
  EXPECT_TRUE(does_both);
  EXPECT_LE(policy.smallest(problem()).peak_bytes, oracle_policy().smallest(problem()).peak_bytes);
}

// Whatever a run may do, the oracle's plan is the fastest of all: what others are measured against.
TEST_F(Adaptive, IsMeasuredAgainstAllMeansTogether) {
  const StoredLevels levels = fixed_levels(program_.graph, precision::Level::kInt8);
  const std::int64_t budget = share(0.45);
  for (const bool has_levels : {false, true}) {
    PlanningProblem p = problem();
    p.link = {.write_bytes_per_ms = 3e4, .read_bytes_per_ms = 3e4};
    if (has_levels) p.levels = &levels;
    const auto ms_of = [&](const std::optional<Plan>& any) {
      return any ? simulate(*any, p.costs, p.link).ms : std::numeric_limits<double>::infinity();
    };
    const std::optional<Plan> plan = make_policy("oracle", {}, true)->within(p, budget);
    ASSERT_TRUE(plan);
    EXPECT_LE(plan->peak_bytes, budget);
    EXPECT_FALSE(validate(*plan, program_.graph, program_.costs));
    const double best = ms_of(plan);
    EXPECT_LE(best, ms_of(AdaptivePolicy({}, "", true).within(p, budget)) * 1.0001);
    EXPECT_LE(best, ms_of(oracle_policy().within(problem(), budget)) * 1.0001);
    EXPECT_LE(best, ms_of(spill_policy().within(p, budget)) * 1.0001);
  }
}

// Bytes on the way cost the cores that move them: with enough of that, computing again is faster than any link.
TEST_F(Adaptive, KnowsThatTransfersCostTheCores) {
  PlanningProblem p = problem();
  p.link = {.write_bytes_per_ms = 1e7, .read_bytes_per_ms = 1e7};
  const std::int64_t budget = share(0.5);
  const AdaptivePolicy policy({}, "", true);
  const Plan free = *policy.within(p, budget);
  const Simulation alone = simulate(free, p.costs, p.link);
  ASSERT_GT(alone.spilled_bytes, 0);
  p.link.host_ms_per_byte = 1e-6;
  const Simulation charged = simulate(free, p.costs, p.link);
  EXPECT_GE(charged.ms, alone.ms + 1e-6 * static_cast<double>(alone.spilled_bytes));  // out, and some back
  p.link.host_ms_per_byte = 1;
  EXPECT_EQ(simulate(*policy.within(p, budget), p.costs, p.link).spilled_bytes, 0);
}

// Just where a link becomes too slow to be used, one of twice the rate would be used: that plan is a rival.
TEST_F(Adaptive, ALinkThatMayBeFasterThanItWasIsWorthARace) {
  const AdaptivePolicy policy({}, "", true);
  const std::int64_t budget = share(0.5);
  PlanningProblem p = problem();
  std::vector<Plan> plans;
  for (double rate = 3e4; plans.empty() || !plans.front().slots.empty(); rate *= 0.6) {
    ASSERT_GT(rate, 1);
    p.link = {.write_bytes_per_ms = rate, .read_bytes_per_ms = rate};
    plans = policy.candidates(p, budget);
    ASSERT_FALSE(plans.empty());
  }
  ASSERT_EQ(plans.size(), 2U);
  EXPECT_FALSE(plans[1].slots.empty());
  EXPECT_LE(plans[1].peak_bytes, budget);
  EXPECT_FALSE(validate(plans[1], program_.graph, program_.costs));
  EXPECT_GE(simulate(plans[1], p.costs, p.link).ms, simulate(plans[0], p.costs, p.link).ms);
  p.link = {.write_bytes_per_ms = 1, .read_bytes_per_ms = 1};
  EXPECT_EQ(policy.candidates(p, budget).size(), 1U);  // hopeless
}

// Where little is spilled beside what is computed again, spilling alone is a rival as soon as a faster link would make
// it nearly the best.
TEST_F(Adaptive, SpillingAloneIsWorthARaceWhereTheLinkDecides) {
  const AdaptivePolicy policy({}, "", true);
  const std::int64_t budget = share(0.5);
  PlanningProblem p = problem();
  int raced = 0;
  for (double rate = 1e5; rate > 100; rate *= 0.7) {
    p.link = {.write_bytes_per_ms = rate, .read_bytes_per_ms = rate};
    const std::vector<Plan> plans = policy.candidates(p, budget);
    ASSERT_FALSE(plans.empty());
    if (plans.front().slots.empty()) break;
    if (plans.size() < 3) continue;
    ++raced;
    const Plan& rival = plans.back();
    EXPECT_LE(rival.peak_bytes, budget);
    EXPECT_FALSE(validate(rival, program_.graph, program_.costs));
    EXPECT_EQ(rival, *spill_policy().within(p, budget));
    Link faster = p.link;
    faster.write_bytes_per_ms *= 2;
    faster.read_bytes_per_ms *= 2;
    EXPECT_GE(simulate(rival, p.costs, p.link).ms, simulate(plans.front(), p.costs, p.link).ms);
    EXPECT_LT(simulate(rival, p.costs, faster).ms, 1.1 * simulate(plans.front(), p.costs, faster).ms);
  }
  EXPECT_GT(raced, 0);
}

std::size_t encodings_of(const Plan& plan) {
  return static_cast<std::size_t>(
      std::ranges::count(plan.instructions, Action::kEncode, [](const Instruction& in) { return in.action; }));
}

// What a tolerance allows in fewer bits is encoded as far as the budget asks for it and it is the fastest way.
TEST_F(Adaptive, RoundsNoMoreThanTheBudgetAsksFor) {
  const AdaptivePolicy policy({}, "");
  const StoredLevels levels = fixed_levels(program_.graph, precision::Level::kInt8);
  for (const double ns : {0.0001, 1e3}) {  // an element: a fast codec, and one that nobody would use
    program_.costs.codec.encode.fill(ns);
    program_.costs.codec.decode.fill(ns);
    PlanningProblem p = problem();
    p.levels = &levels;
    for (const double part : {0.8, 0.6}) {
      const std::optional<Plan> plan = policy.within(p, share(part));
      ASSERT_TRUE(plan) << part;
      EXPECT_LE(plan->peak_bytes, share(part));
      EXPECT_FALSE(validate(*plan, program_.graph, program_.costs));
      const auto ms_of = [&](const Plan& any) { return simulate(any, p.costs).ms; };
      EXPECT_LE(ms_of(*plan), ms_of(*oracle_policy().within(problem(), share(part))) * 1.0001) << part;
      EXPECT_EQ(encodings_of(*plan) > 0, ns < 1) << part;
    }
    EXPECT_LE(policy.smallest(p).peak_bytes, oracle_policy().smallest(problem()).peak_bytes);
  }
}

// Bytes that have a price are not used although they are there; the price of bandwidth changes what is made again.
TEST_F(Adaptive, TheRewardChangesWhatRuns) {
  const auto with = [&](double memory, double bandwidth) {
    q_learning::AgentOptions options;
    options.reward.memory = memory;
    options.reward.bandwidth = bandwidth;
    const AdaptivePolicy policy(options, "");
    return *policy.within(problem(), share(0.8));
  };
  const Plan constrained = with(0, 0);
  const Plan sparing = with(20, 0);
  EXPECT_LT(sparing.peak_bytes, constrained.peak_bytes);
  EXPECT_GT(simulate(sparing, program_.costs).ms, simulate(constrained, program_.costs).ms);
  EXPECT_FALSE(validate(sparing, program_.graph, program_.costs));
  EXPECT_NE(with(0, 100), constrained);
}

TEST_F(Adaptive, ItsChainMeansWhatThePlanMeans) {
  const PlanningProblem p = problem();
  const Recompute r(p);
  const std::vector<Layer> layers = find_layers(r);
  const q_learning::Chain chain = chain_of(r, layers, stored_.peak_bytes);
  ASSERT_EQ(chain.layers.size(), layers.size());
  const q_learning::Choices all(layers.size());  // store
  EXPECT_EQ(footprint_of(r, retention_of(r, layers, all)).bytes, footprint_of(r, r.store_all).bytes);
  const q_learning::Choices cheap(layers.size(), {.kind = q_learning::Choice::Kind::kCheap});
  const q_learning::Choices every(layers.size(), {.kind = q_learning::Choice::Kind::kEvery, .every = 1});
  const Footprint some = footprint_of(r, retention_of(r, layers, cheap));
  const Footprint least = footprint_of(r, retention_of(r, layers, every));
  EXPECT_LE(some.bytes, footprint_of(r, r.store_all).bytes);
  EXPECT_LT(least.bytes, some.bytes);
  EXPECT_LT(some.ms, least.ms);
}

// A run's minimum is proven with guesses; with other times a search may end above it.
TEST_F(Adaptive, MeasuredTimesLoseNoProvenMinimum) {
  const AdaptivePolicy policy({}, "");
  const std::unique_ptr<Device> former = std::exchange(device_, make_cpu_device(1));  // workspaces count
  program_ = make_program("gpt-mini:layers=4,width=96,heads=4", 8, 64);
  guess_times(program_.graph, DeviceKind::kCpu, program_.costs);
  const Costs guessed = program_.costs;
  const std::int64_t minimum = policy.smallest(problem()).peak_bytes;
  std::mt19937 random(1);
  std::lognormal_distribution<double> times(0, 2);  // of a machine that others use
  const Plan everything = store_all_policy().smallest(problem());
  ASSERT_GT(everything.peak_bytes, minimum);
  for (int i = 0; i < 24; ++i) {
    for (std::size_t k = 0; k < guessed.ms.size(); ++k) program_.costs.ms[k] = guessed.ms[k] * times(random);
    for (const Plan& found : {policy.smallest(problem()), everything}) {
      const Plan plan = or_proven(found, policy, problem(), guessed, minimum);
      EXPECT_LE(plan.peak_bytes, minimum) << i;
      EXPECT_FALSE(validate(plan, program_.graph, program_.costs)) << i;
    }
  }
}

TEST_F(Adaptive, WhatItLearntComesBack) {
  const AdaptivePolicy teacher({}, "");
  teacher.within(problem(), share(0.6));
  const AdaptivePolicy pupil({}, teacher.learnt());
  EXPECT_EQ(pupil.learnt(), teacher.learnt());
  EXPECT_GT(teacher.own_bytes(), 0);
}

}  // namespace
}  // namespace neap
