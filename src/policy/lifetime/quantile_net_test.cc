#include "policy/lifetime/quantile_net.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include "core/random.h"
#include "policy/lifetime/lifetime_testing.h"
#include "policy/lifetime/score.h"

namespace neap {
namespace {

Sequence blind_sequence(const RecordedStep& step) {
  Sequence out = sequence_of(step.events, nullptr);
  set_targets(out, step.lifespans);
  return out;
}

std::vector<const Sequence*> pointers(const std::vector<Sequence>& sequences) {
  std::vector<const Sequence*> out;
  for (const Sequence& s : sequences) out.push_back(&s);
  return out;
}

TEST(QuantileNet, PredictsLengthsThatItNeverSaw) {
  std::vector<Sequence> seen;
  for (const std::uint32_t chunks : {3U, 5U, 8U, 12U, 16U, 20U, 24U, 30U}) {
    seen.push_back(blind_sequence(recurrent_step(chunks)));
  }
  const FitResult fitted = fit(pointers(seen), {}, {.updates = 800});
  QuantileNet net(0);
  net.load(fitted.weights);
  const RecordedStep step = recurrent_step(14);
  std::vector<Lifetime> out(step.events.size());
  net.predict(blind_sequence(step), out);
  for (std::size_t i = 0; i < out.size(); ++i) {
    EXPECT_NEAR(out[i].p50, step.lifespans[i], std::max(1.0, 0.3 * step.lifespans[i])) << i;
    EXPECT_LE(out[i].p10, out[i].p50);
    EXPECT_LE(out[i].p50, out[i].p90);
  }
  EXPECT_LT(score_of(out, step.lifespans).pinball(), 0.03);
}

// Lifespans that nothing explains: the best prediction is their distribution's quantiles.
TEST(QuantileNet, LearnsTheQuantilesOfChance) {
  RandomStream random(3);
  std::vector<Sequence> seen;
  for (int i = 0; i < 24; ++i) {
    RecordedStep step = recurrent_step(40, 400);
    for (Tick& t : step.lifespans) t = static_cast<Tick>(std::lround(std::exp(1 + 4 * random.uniform())));
    seen.push_back(blind_sequence(step));
  }
  const FitResult fitted = fit(pointers(seen), {}, {.updates = 800, .lr = 3e-3});
  QuantileNet net(0);
  net.load(fitted.weights);
  const RecordedStep step = recurrent_step(40, 400);
  std::vector<Lifetime> out(step.events.size());
  net.predict(blind_sequence(step), out);
  double p10 = 0;
  double p50 = 0;
  double p90 = 0;
  for (const Lifetime& l : out) {
    p10 += std::log(l.p10) / static_cast<double>(out.size());
    p50 += std::log(l.p50) / static_cast<double>(out.size());
    p90 += std::log(l.p90) / static_cast<double>(out.size());
  }
  EXPECT_NEAR(p10, 1.4, 0.3);
  EXPECT_NEAR(p50, 3.0, 0.4);
  EXPECT_NEAR(p90, 4.6, 0.3);
}

TEST(QuantileNet, IsAFunctionOfItsSeed) {
  const std::vector<Sequence> seen = {blind_sequence(recurrent_step(9)), blind_sequence(recurrent_step(14))};
  const FitResult a = fit(pointers(seen), {}, {.updates = 20, .seed = 5});
  const FitResult b = fit(pointers(seen), {}, {.updates = 20, .seed = 5});
  const FitResult c = fit(pointers(seen), {}, {.updates = 20, .seed = 6});
  EXPECT_EQ(a.weights, b.weights);
  EXPECT_NE(a.weights, c.weights);
  EXPECT_GT(a.arena_bytes, 0);
  EXPECT_LT(a.arena_bytes, 4 << 20);
}

// What comes later in a step cannot change what was said before, and what came before is remembered over the pieces in
// which a long step is predicted.
TEST(QuantileNet, CarriesItsStateThroughTheStep) {
  const RecordedStep step = recurrent_step(60);
  Sequence sequence = blind_sequence(step);
  NetworkWeights weights = fit({&sequence}, {}, {.updates = 0}).weights;
  for (float& w : weights.at("head.weight")) w *= 30;  // so that whole ticks show the state
  QuantileNet net(1);
  net.load(weights);
  std::vector<Lifetime> before(step.events.size());
  net.predict(sequence, before);
  constexpr std::size_t kPiece = 64;
  std::fill_n(sequence.numbers.begin(), kPiece * kNumbers, 3.0F);
  std::vector<Lifetime> after(step.events.size());
  net.predict(sequence, after);
  EXPECT_FALSE(std::equal(before.begin() + kPiece, before.end(), after.begin() + kPiece));
  sequence = blind_sequence(step);
  std::fill(sequence.numbers.begin() + kPiece * kNumbers, sequence.numbers.end(), 3.0F);
  net.predict(sequence, after);
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + kPiece, after.begin()));
}

TEST(QuantileNet, IsFastEnoughForAShapeSeenForTheFirstTime) {
  QuantileNet net(0);
  const RecordedStep step = recurrent_step(334);
  const Sequence sequence = blind_sequence(step);
  std::vector<Lifetime> out(step.events.size());
  net.predict(sequence, out);
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    net.predict(sequence, out);
    const auto end = std::chrono::steady_clock::now();
    best = std::min(best, std::chrono::duration<double, std::milli>(end - start).count());
  }
  EXPECT_LT(best, 500) << "ms for " << step.events.size()
                       << " events";  // a few; sanitizers and a busy machine take more
}

}  // namespace
}  // namespace neap
