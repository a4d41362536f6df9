#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "neap/builtin_models.h"
#include "neap/error.h"
#include "plan/views.h"
#include "pool/events.h"
#include "pool/simple_predictors.h"
#include "train/model_spec.h"

namespace neap {
namespace {

StepEvents events_at(std::int64_t length) {
  TrainOptions options;
  options.batch = 2;
  options.length = length;
  const Graph graph = build_training(make_spec(open_builtin_model("lstm-lm:hidden=32,vocab=64"), options), options);
  return events_of(graph, make_schedule(graph, find_views(graph), store_all(graph), {}), length);
}

TEST(Events, AreInOrderAndTheirLifespansEndWithinTheStep) {
  const StepEvents step = events_at(64);
  ASSERT_EQ(step.events.size(), step.lifespans.size());
  ASSERT_EQ(step.events.size(), step.blocks.size());
  for (std::size_t i = 0; i < step.events.size(); ++i) {
    const AllocationEvent& e = step.events[i];
    EXPECT_GE(step.lifespans[i], 1U);
    EXPECT_LE(e.tick + step.lifespans[i], e.ticks);
    EXPECT_EQ(e.length, 64);
    EXPECT_GE(e.tick, step.events[i > 0 ? i - 1 : 0].tick);
  }
  std::set<std::uint8_t> phases;
  for (const AllocationEvent& e : step.events) phases.insert(e.phase);
  EXPECT_EQ(phases.size(), 2U);  // forward and backward; updates make nothing
}

TEST(Events, SitesAreTheSameForEveryLength) {
  const auto sites = [](const StepEvents& step) {
    std::set<std::uint32_t> out;
    for (const AllocationEvent& e : step.events) out.insert(e.site);
    return out;
  };
  const StepEvents shorter = events_at(64);
  const StepEvents longer = events_at(128);
  EXPECT_LT(shorter.events.size(), longer.events.size());
  EXPECT_EQ(sites(shorter), sites(longer));
}

AllocationEvent event(std::uint32_t site, std::int64_t length, Tick ticks = 100) {
  return {.site = site, .bytes = 64 * length, .ticks = ticks, .length = length};
}

std::vector<Lifetime> ask(LifetimePredictor& predictor, const std::vector<AllocationEvent>& step) {
  std::vector<Lifetime> out(step.size());
  predictor.predict(step, out);
  return out;
}

TEST(SimplePredictors, RegressionFindsALineAndExtendsIt) {
  const auto predictor = predictor_named("regression");
  for (const std::int64_t length : {32, 64, 96}) {
    predictor->observe(std::vector{event(1, length)}, std::vector{static_cast<Tick>(3 + length / 2)});
  }
  const Lifetime at = ask(*predictor, {event(1, 160)})[0];
  EXPECT_NEAR(at.p50, 83, 1);
  EXPECT_LE(at.p10, at.p50);
  EXPECT_LE(at.p50, at.p90);
  EXPECT_EQ(ask(*predictor, {event(2, 160)})[0], Lifetime{});  // a site that nobody has seen
}

TEST(SimplePredictors, LastValueKeepsTheTurnsApart) {
  const auto predictor = predictor_named("last-value");
  predictor->observe(std::vector{event(1, 8), event(1, 8)}, std::vector<Tick>{5, 9});
  const auto out = ask(*predictor, {event(1, 8), event(1, 8), event(1, 8)});
  EXPECT_EQ(out[0].p50, 5);
  EXPECT_EQ(out[1].p50, 9);
  EXPECT_EQ(out[2].p50, 9);
}

TEST(SimplePredictors, AverageGivesQuantiles) {
  const auto predictor = predictor_named("average");
  std::vector<AllocationEvent> step(11, event(1, 8));
  std::vector<Tick> lifespans;
  for (Tick t = 0; t < 11; ++t) lifespans.push_back(10 * t);
  predictor->observe(step, lifespans);
  EXPECT_EQ(ask(*predictor, {event(1, 8)})[0], (Lifetime{10, 50, 90}));
}

TEST(SimplePredictors, TheInformedSayTheTruthOrTheOpposite) {
  const std::vector<Tick> truth = {90, 1};
  for (const char* name : {"oracle", "adversarial"}) {
    const auto predictor = predictor_named(name);
    dynamic_cast<InformedPredictor&>(*predictor).inform(truth);
    const auto out = ask(*predictor, {event(1, 8), event(2, 8)});
    EXPECT_EQ(out[0].p50 > out[1].p50, std::string_view(name) == "oracle");
    EXPECT_EQ(predictor->name(), name);
  }
}

TEST(SimplePredictors, ComeByName) {
  for (const std::string_view name : predictor_names()) EXPECT_EQ(predictor_named(name)->name(), name);
  EXPECT_TRUE(std::isinf(ask(*predictor_named("infinite"), {event(1, 8)})[0].p10));
  EXPECT_TRUE(std::isnan(ask(*predictor_named("nan"), {event(1, 8)})[0].p50));
  EXPECT_THROW(predictor_named("tea-leaves"), UserError);
}

}  // namespace
}  // namespace neap
