#include "train/duel.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/random.h"

namespace neap {
namespace {

// Four nodes of 10 ms; the last is another one on the fresh side.
const std::vector<bool> kLastDiffers = {false, false, false, true};

template <class Noise>
Duel duel_of(double fresh_ms, int pairs, Noise noise) {
  Duel out(kLastDiffers);
  for (int i = 0; i < 2 * pairs; ++i) {
    const bool is_fresh = out.is_fresh_next();
    std::vector<double> nodes = {10, 10, 10, is_fresh ? fresh_ms : 10};
    noise(i, nodes);
    out.add(is_fresh, std::move(nodes));
  }
  return out;
}

TEST(Duel, TakesTurnsSoThatATrendStrikesBothAlike) {
  const auto trend = [](int i, std::vector<double>& nodes) {
    for (double& each : nodes) each *= 1 + 0.01 * i;
  };
  const Duel duel = duel_of(10, 8, trend);
  EXPECT_TRUE(duel.is_even());
  EXPECT_EQ(duel.pairs(), 8U);
  EXPECT_NE(verdict_of(duel.whole(), duel.pairs(), 40), Verdict::kSlower);
  EXPECT_NE(verdict_of(duel.whole(), duel.pairs(), 40), Verdict::kFaster);
  EXPECT_NEAR(duel.whole().ms, 0, 0.1);
}

// Steps that take up to twice as long as a whole hide nothing: the nodes that are the same show it.
TEST(Duel, SeesThroughWhatSlowsAWholeStepDown) {
  RandomStream random(3);
  const auto slow = [&](int, std::vector<double>& nodes) {
    const double by = 1 + random.uniform();
    for (double& each : nodes) each *= by;
  };
  const Duel duel = duel_of(9, 8, slow);
  EXPECT_EQ(verdict_of(duel.whole(), duel.pairs(), duel.whole().old_ms), Verdict::kFaster);
  EXPECT_NEAR(duel.whole().ms / duel.whole().old_ms, -1.0 / 40, 0.012);
}

TEST(Duel, CutsBurstsOff) {
  const auto burst = [](int i, std::vector<double>& nodes) {
    if (i == 1) nodes[3] *= 50;
    if (i == 4) nodes[0] *= 50;
  };
  const Duel duel = duel_of(10, 12, burst);
  EXPECT_EQ(verdict_of(duel.whole(), duel.pairs(), 40), Verdict::kSame) << duel.whole().ms;
}

// With the same noise a clear loser is seen after few pairs, a close one is still open.
TEST(Duel, IsSoonDoneWithClearLosers) {
  const auto noise = [](RandomStream& random) {
    return [&random](int, std::vector<double>& nodes) {
      for (double& each : nodes) each *= 0.95 + 0.1 * random.uniform();
    };
  };
  RandomStream a(5);
  RandomStream b(5);
  const Duel loser = duel_of(30, 3, noise(a));
  const Duel close = duel_of(9.5, 3, noise(b));
  EXPECT_EQ(verdict_of(loser.whole(), loser.pairs(), 40), Verdict::kSlower);
  EXPECT_EQ(verdict_of(close.whole(), close.pairs(), 40), Verdict::kOpen);
}

// Nodes that are called the same may still take longer, where things lie elsewhere now.
TEST(Duel, CountsTheRestWhereItHasMoved) {
  Duel duel(kLastDiffers);
  for (int i = 0; i < 16; ++i) {
    const bool is_fresh = duel.is_fresh_next();
    const double wobble = 1 + 0.001 * (i % 3);
    duel.add(is_fresh, {10 * wobble, 10, is_fresh ? 14.0 : 10.0, is_fresh ? 9.0 : 10.0});
  }
  EXPECT_NEAR(duel.whole().ms, 3, 0.1);
  EXPECT_EQ(verdict_of(duel.whole(), duel.pairs(), 40), Verdict::kSlower);
}

TEST(Duel, EndsWithWhatIsLikelier) {
  EXPECT_EQ(last_verdict_of({.old_ms = 100, .ms = -5, .error_ms = 2}, 100), Verdict::kFaster);
  EXPECT_EQ(last_verdict_of({.old_ms = 100, .ms = -5, .error_ms = 6}, 100), Verdict::kSame);
  EXPECT_EQ(last_verdict_of({.old_ms = 100, .ms = -0.5, .error_ms = 0.1}, 100), Verdict::kSame);
}

}  // namespace
}  // namespace neap
