#include "policy/lifetime/score.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace neap {
namespace {

TEST(LifetimeScore, IsThePinballLossOfLogarithms) {
  const Lifetime predicted[] = {{10, 10, 10}};
  const Tick longer[] = {20};
  const Tick shorter[] = {5};
  EXPECT_NEAR(score_of(predicted, longer).pinball(), std::log(2) * (0.1 + 0.5 + 0.9) / 3, 1e-12);
  EXPECT_NEAR(score_of(predicted, shorter).pinball(), std::log(2) * (0.9 + 0.5 + 0.1) / 3, 1e-12);
}

TEST(LifetimeScore, CountsWhatLiesOutsideAndWhatExpiredEarly) {
  const Lifetime predicted[] = {{4, 6, 8}, {4, 6, 8}, {4, 6, 8}};
  const Tick lifespans[] = {9, 6, 3};
  const LifetimeScore score = score_of(predicted, lifespans);
  EXPECT_DOUBLE_EQ(score.early_rate(), 1.0 / 3);
  EXPECT_DOUBLE_EQ(score.miss_rate(), 2.0 / 3);
}

TEST(LifetimeScore, TakesPredictionsThatAreNoNumbers) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  constexpr double kForever = std::numeric_limits<double>::infinity();
  const Lifetime predicted[] = {{kNone, kNone, kNone}, {0, 0, 0}, {kForever, kForever, kForever}};
  const Tick lifespans[] = {7, 7, 7};
  const LifetimeScore score = score_of(predicted, lifespans);
  EXPECT_TRUE(std::isfinite(score.pinball()));
  EXPECT_EQ(score.outside, 3U);
}

}  // namespace
}  // namespace neap
