#include "policy/lifetime/lstm_predictor.h"

#include <gtest/gtest.h>

#include "core/random.h"
#include "neap/error.h"
#include "policy/lifetime/lifetime_testing.h"
#include "policy/lifetime/score.h"
#include "pool/simple_predictors.h"

namespace neap {
namespace {

LifetimeOptions quick() { return {.window = 16, .updates = 500, .in_background = false}; }

// A kept tensor's life depends on its size too, across thresholds: what a site has shown last is often wrong.
RecordedStep step_of(std::uint32_t chunks) {
  RecordedStep step = recurrent_step(chunks);
  const std::int64_t bytes = 512 * std::int64_t{chunks};
  const bool is_made_again = (bytes >= 4096 && bytes < 8192) || bytes >= 16384;
  for (std::size_t i = 0; i < step.events.size(); ++i) {
    if (step.events[i].site != 1) continue;
    step.events[i].bytes = bytes;
    if (is_made_again) step.lifespans[i] = 1;
  }
  return step;
}

class Stream {
 public:
  explicit Stream(std::uint64_t seed) : random_(seed) {}
  RecordedStep next(std::uint32_t least, std::uint32_t most) {
    return step_of(least + static_cast<std::uint32_t>(random_.below(most - least + 1)));
  }

 private:
  RandomStream random_;
};

double advance(LifetimePredictor& predictor, const RecordedStep& step) {
  std::vector<Lifetime> out(step.events.size());
  predictor.predict(step.events, out);
  predictor.observe(step.events, step.lifespans);
  return score_of(out, step.lifespans).pinball();
}

double mean_over(LifetimePredictor& predictor, Stream& stream, std::uint32_t least, std::uint32_t most, int steps) {
  double sum = 0;
  for (int i = 0; i < steps; ++i) sum += advance(predictor, stream.next(least, most)) / steps;
  return sum;
}

TEST(LstmPredictor, BeatsTheLastValueWhereLengthsVary) {
  LstmPredictor lstm(quick());
  const auto last = predictor_named("last-value");
  Stream a(1);
  Stream b(1);
  mean_over(lstm, a, 2, 24, 40);
  mean_over(*last, b, 2, 24, 40);
  const double own = mean_over(lstm, a, 2, 24, 30);
  const double of_last = mean_over(*last, b, 2, 24, 30);
  EXPECT_LT(own, 0.5 * of_last);
  EXPECT_GT(lstm.report().adopted, 0);
}

TEST(LstmPredictor, IsTheLastValueOnAStaticGraph) {
  LstmPredictor lstm(quick());
  const RecordedStep step = recurrent_step(9);
  advance(lstm, step);
  for (int i = 0; i < 30; ++i) EXPECT_EQ(advance(lstm, step), 0) << i;
}

// The network alone: what a site has shown before is not told to it.
TEST(LstmPredictor, IsRetrainedWhenLengthsJump) {
  for (const bool uses_history : {false, true}) {
    LifetimeOptions options = quick();
    options.uses_history = uses_history;
    LstmPredictor lstm(options);
    Stream stream(2);
    mean_over(lstm, stream, 2, 7, 48);
    const double settled = mean_over(lstm, stream, 2, 7, 8);
    const LifetimeReport before = lstm.report();
    const double collapsed = mean_over(lstm, stream, 30, 44, 4);
    EXPECT_GT(collapsed, 3 * settled + 0.02) << uses_history;
    mean_over(lstm, stream, 30, 44, 3 * 16 - 4);
    const LifetimeReport after = lstm.report();
    EXPECT_GT(after.adopted, before.adopted) << uses_history;
    EXPECT_LE(after.last_adopted_at, before.steps + 3 * 16);
    const double recovered = mean_over(lstm, stream, 30, 44, 16);
    EXPECT_LT(recovered, 0.4 * collapsed) << uses_history;
  }
}

TEST(LstmPredictor, TakesNoNetworkThatIsNotBetter) {
  LifetimeOptions options = quick();
  options.updates = 1;  // learns nothing
  LstmPredictor lstm(options);
  Stream stream(3);
  mean_over(lstm, stream, 2, 24, 60);
  const LifetimeReport report = lstm.report();
  EXPECT_GT(report.trainings, 0);
  EXPECT_EQ(report.adopted, 0);
}

TEST(LstmPredictor, IsAFunctionOfItsSeedAndItsSteps) {
  const auto run = [](std::uint64_t seed) {
    LifetimeOptions options = quick();
    options.seed = seed;
    options.uses_history = false;
    LstmPredictor lstm(options);
    Stream stream(4);
    mean_over(lstm, stream, 2, 24, 20);
    EXPECT_GT(lstm.report().adopted, 0);
    const RecordedStep step = step_of(13);
    std::vector<Lifetime> out(step.events.size());
    lstm.predict(step.events, out);
    return out;
  };
  EXPECT_TRUE(run(1) == run(1));
  EXPECT_FALSE(run(1) == run(2));
}

TEST(LstmPredictor, LearnsInTheBackground) {
  LifetimeOptions options = quick();
  options.in_background = true;
  LstmPredictor lstm(options);
  Stream stream(5);
  mean_over(lstm, stream, 2, 24, 16);
  lstm.wait();
  EXPECT_GT(lstm.report().trainings, 0);
  EXPECT_GT(lstm.report().arena_bytes, 0);
  EXPECT_GT(lstm.report().window_bytes, 0);
  mean_over(lstm, stream, 2, 24, 16);  // and what runs when it is destroyed is given up
}

TEST(LstmPredictor, StudiesRecordings) {
  Stream stream(6);
  std::vector<RecordedStep> recording;
  for (int i = 0; i < 24; ++i) recording.push_back(stream.next(2, 24));
  LifetimeOptions options = quick();
  options.updates = 2000;
  LstmPredictor studied(options);
  studied.study(recording);
  EXPECT_EQ(studied.report().adopted, 1);
  LstmPredictor fresh(quick());
  Stream a(7);
  Stream b(7);
  EXPECT_LT(mean_over(studied, a, 2, 24, 4), 0.5 * mean_over(fresh, b, 2, 24, 4));
}

TEST(LstmPredictor, PredictsByLayer) {
  LifetimeOptions options = quick();
  options.per_layer = true;
  LstmPredictor lstm(options);
  RecordedStep step;
  for (std::uint32_t i = 0; i < 6; ++i) {
    step.events.push_back({.site = i, .layer = i / 3, .bytes = 64, .tick = i, .ticks = 20, .length = 16});
    step.lifespans.push_back(i % 3 == 2 ? 10 : 1);
  }
  for (int i = 0; i < 3; ++i) advance(lstm, step);
  std::vector<Lifetime> out(step.events.size());
  lstm.predict(step.events, out);
  EXPECT_DOUBLE_EQ(out[0].p50, 12);  // the layer's last tensor is over at tick 12
  EXPECT_DOUBLE_EQ(out[2].p50, 10);
  EXPECT_DOUBLE_EQ(out[5].p50, 10);
}

TEST(LstmPredictor, IsMadeByName) {
  EXPECT_EQ(make_lifetime_predictor("lstm")->name(), "lstm");
  EXPECT_EQ(make_lifetime_predictor("lstm-layers")->name(), "lstm");
  EXPECT_EQ(make_lifetime_predictor("last-value")->name(), "last-value");
  EXPECT_THROW(make_lifetime_predictor("tea-leaves"), UserError);
}

}  // namespace
}  // namespace neap
