#include "policy/priced.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "device/device.h"
#include "graph/op.h"
#include "neap/builtin_models.h"
#include "plan/simulate.h"
#include "plan/validate.h"
#include "policy/joint.h"
#include "policy/storable.h"
#include "runtime/prepare.h"
#include "train/model_spec.h"
#include "train/setup.h"

namespace neap {
namespace {

// A transformer with times that differ from op to op, and a link.
class Priced : public ::testing::Test {
 protected:
  Priced() : program_(make_program(*make_null_device())) {
    program_.costs.ms.clear();
    for (std::size_t i = 0; i < program_.graph.nodes.size(); ++i) {
      const Node& node = program_.graph.nodes[i];
      program_.costs.ms.push_back(node.op->cheap ? 0.1 : 1.0 + 0.1 * static_cast<double>(i % 7));
    }
    stored_ = store_all_policy().smallest(problem(0));
  }

  static Program make_program(Device& device) {
    TrainOptions options;
    options.batch = 8;
    options.length = 64;
    const auto model = open_builtin_model("gpt-mini:layers=6,width=96,heads=4");
    return prepare(build_training(make_spec(model, options), options), device);
  }

  PlanningProblem problem(double rate) const {
    return {.graph = program_.graph,
            .costs = program_.costs,
            .link = {.write_bytes_per_ms = rate, .read_bytes_per_ms = rate}};
  }
  std::int64_t share(double part) const {
    const auto rest = static_cast<double>(stored_.peak_bytes - stored_.state_bytes);
    return stored_.state_bytes + static_cast<std::int64_t>(rest * part);
  }
  // A step of it as the program sees one: without updates.
  double step_ms(const Recompute& r, const Retention& retention) const {
    double out = footprint_of(r, retention).ms;
    for (std::size_t i = 0; i < program_.costs.ms.size(); ++i) {
      if (program_.graph.nodes[i].phase == Phase::kUpdate) out -= program_.costs.ms[i];
    }
    return out;
  }

  Program program_;
  Plan stored_;
};

TEST_F(Priced, ALinkThatTakesNoTimeCarriesEverythingAndNothingIsMadeAgain) {
  const PlanningProblem p = problem(0);
  const Recompute r(p);
  const std::vector<Layer> layers = find_layers(r);
  const PricedChain chain(r, layers, true);
  const std::vector<PricedWay> ways = chain.ways(1);
  ASSERT_FALSE(ways.empty());
  EXPECT_EQ(ways.front().link_ms, 0);
  EXPECT_FALSE(ways.front().leaving.empty());
  const double stored = step_ms(r, r.store_all);  // with the cheap passes that it makes
  EXPECT_NEAR(ways.back().ms, stored, 0.01 * stored);
  EXPECT_NEAR(step_ms(r, ways.back().retention), stored, 0.01 * stored);
}

TEST_F(Priced, ADearerLinkCarriesLessAndMoreIsMadeAgain) {
  const PlanningProblem p = problem(1e4);
  const Recompute r(p);
  const std::vector<Layer> layers = find_layers(r);
  const PricedChain chain(r, layers, true);
  double link = 1e9;
  double ms = 0;
  for (const double price : {0.0, 0.2, 0.5, 1.0, 100.0}) {
    const std::vector<PricedWay> ways = chain.ways(price);
    ASSERT_FALSE(ways.empty());
    const PricedWay& least = ways.front();
    EXPECT_LE(least.link_ms, link * 1.0001) << price;
    EXPECT_GE(least.ms, ms * 0.9999) << price;
    link = least.link_ms;
    ms = least.ms;
  }
  EXPECT_LT(link, chain.ways(0).front().link_ms);
}

TEST_F(Priced, WithoutMeansItIsTheChainOfRecomputation) {
  const PlanningProblem p = problem(1e4);
  const Recompute r(p);
  const std::vector<Layer> layers = find_layers(r);
  const std::vector<Retention> plain = LayerChain(r, layers).retentions();
  const std::vector<PricedWay> ways = PricedChain(r, layers, false).ways(0.5);
  ASSERT_FALSE(ways.empty());
  EXPECT_EQ(ways.front().retention, plain.front());
  EXPECT_EQ(ways.back().retention, plain.back());
  for (const PricedWay& way : ways) {
    EXPECT_NEAR(way.ms, step_ms(r, way.retention), 0.05 * way.ms);
    EXPECT_TRUE(way.leaving.empty() && way.rounded.empty());
  }
}

TEST_F(Priced, ALinkThatLeadsNowhereIsNone) {
  StoredLevels levels = fixed_levels(program_.graph, precision::Level::kInt8);
  PlanningProblem p = problem(1e6);
  p.levels = &levels;
  PlanningProblem closed = p;
  closed.link.room_bytes = 0;
  for (const double part : {0.3, 0.5, 0.7}) {
    constexpr double kAny = 1e9;
    const auto shut = joint_within(closed, share(part), kAny, true, kJointWhileRunning);
    const auto none = joint_within(p, share(part), kAny, false, kJointWhileRunning);
    ASSERT_EQ(shut.has_value(), none.has_value()) << part;
    if (!shut) continue;
    EXPECT_TRUE(shut->plan.slots.empty()) << part;
    EXPECT_EQ(shut->plan, none->plan) << part;
  }
}

TEST_F(Priced, RoundsWhatACodecMakesCheaperThanAnythingElse) {
  StoredLevels levels = fixed_levels(program_.graph, precision::Level::kInt8);
  PlanningProblem p = problem(10);  // hopeless
  p.levels = &levels;
  for (const double ns : {1e-4, 1e6}) {
    program_.costs.codec.encode.fill(ns);
    program_.costs.codec.decode.fill(ns);
    const Recompute r(p);
    const std::vector<Layer> layers = find_layers(r);
    const PricedWay least = PricedChain(r, layers, true).ways(0.5).front();
    EXPECT_EQ(least.rounded.empty(), ns > 1) << ns;
    for (const TensorId id : least.rounded) EXPECT_NE(level_of(p, id), precision::Level::kFp32);
  }
}

// By the simulator and within the budget: never slower than computing again or shares alone, and somewhere faster.
TEST_F(Priced, MakesJointPlansFaster) {
  JointEffort shares_alone = kJointWhileRunning;
  shares_alone.prices = 0;
  double gained = 1;
  for (const double rate : {3e4, 1e5}) {
    for (const double part : {0.6, 0.4, 0.25}) {
      const PlanningProblem p = problem(rate);
      const double again = simulate(*oracle_policy().within(p, share(part)), p.costs, p.link).ms;
      const auto before = joint_within(p, share(part), again, true, shares_alone);
      const auto after = joint_within(p, share(part), again, true);
      if (!after) {
        EXPECT_FALSE(before);
        continue;
      }
      EXPECT_LE(after->plan.peak_bytes, share(part));
      EXPECT_FALSE(validate(after->plan, program_.graph, program_.costs));
      EXPECT_DOUBLE_EQ(after->ms, simulate(after->plan, p.costs, p.link).ms);
      const double best = before ? before->ms : again;
      EXPECT_LE(after->ms, best) << rate << " " << part;
      gained = std::min(gained, after->ms / best);
    }
  }
  EXPECT_LT(gained, 0.995);
}

}  // namespace
}  // namespace neap
