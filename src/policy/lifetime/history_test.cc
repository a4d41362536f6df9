#include "policy/lifetime/history.h"

#include <gtest/gtest.h>

#include "policy/lifetime/lifetime_testing.h"

namespace neap {
namespace {

Estimate estimate(const SiteHistory& history, const RecordedStep& step, std::size_t event, Guess guess) {
  return history.estimates(step.events[event], turns_of(step.events)[event])[static_cast<std::size_t>(guess)];
}

TEST(SiteHistory, CountsTurnsFromBothEnds) {
  const RecordedStep step = recurrent_step(3);
  const std::vector<Turn> turns = turns_of(step.events);
  EXPECT_EQ(turns[0].from_start, 0U);
  EXPECT_EQ(turns[0].from_end, 2U);
  EXPECT_EQ(turns[4].from_start, 2U);
  EXPECT_EQ(turns[4].from_end, 0U);
}

TEST(SiteHistory, KnowsNothingAtFirst) {
  const RecordedStep step = recurrent_step(3);
  EXPECT_EQ(best_of(SiteHistory().estimates(step.events[0], {})), kGuesses);
}

TEST(SiteHistory, ALineReachesLengthsThatWereNotSeen) {
  SiteHistory history;
  for (const std::uint32_t chunks : {4U, 6U}) {
    const RecordedStep step = recurrent_step(chunks);
    history.learn(step.events, step.lifespans);
  }
  const RecordedStep longer = recurrent_step(10);
  const Estimate line = estimate(history, longer, 0, Guess::kLine);
  ASSERT_TRUE(line.is_known);
  EXPECT_DOUBLE_EQ(line.ticks, longer.lifespans[0]);
  EXPECT_DOUBLE_EQ(estimate(history, longer, 0, Guess::kLastFromStart).ticks, recurrent_step(6).lifespans[0]);
  EXPECT_FALSE(estimate(history, longer, 0, Guess::kLastFromEnd).is_known);  // the tenth turn from the end is new
}

TEST(SiteHistory, BelievesTheGuessThatWasRight) {
  SiteHistory history;
  for (const std::uint32_t chunks : {4U, 6U, 5U, 8U, 7U}) {
    const RecordedStep step = recurrent_step(chunks);
    history.learn(step.events, step.lifespans);
  }
  const RecordedStep step = recurrent_step(6);
  const Estimates all = history.estimates(step.events[0], turns_of(step.events)[0]);
  EXPECT_NE(best_of(all), static_cast<std::size_t>(Guess::kLastFromStart));
  EXPECT_GT(all[static_cast<std::size_t>(Guess::kLastFromStart)].error, 0.05);
  EXPECT_DOUBLE_EQ(all[best_of(all)].ticks, step.lifespans[0]);
}

// Another plan: what is kept is needed half as long.
RecordedStep halved(RecordedStep step) {
  for (Tick& t : step.lifespans) t = (t + 1) / 2;
  return step;
}

TEST(SiteHistory, ForgetsWhatHasChanged) {
  SiteHistory history;
  const auto learn = [&](const RecordedStep& step) { history.learn(step.events, step.lifespans); };
  for (std::uint32_t i = 0; i < 60; ++i) learn(recurrent_step(20 + i % 3));
  for (std::uint32_t i = 0; i < 60; ++i) learn(halved(recurrent_step(20 + i % 3)));
  const RecordedStep step = halved(recurrent_step(21));
  EXPECT_NEAR(estimate(history, step, 0, Guess::kLine).ticks, step.lifespans[0], 1);
}

}  // namespace
}  // namespace neap
