#include "policy/lifetime/retraining.h"

#include <chrono>
#include <cmath>

#include "neap/error.h"

namespace neap {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kHeldOutEvery = 4;

// Without weights: the guesses alone.
LifetimeScore score_with(const SeenSteps& steps, const NetworkWeights& weights, const FitOptions& options) {
  QuantileNet net(options.seed);
  net.load(weights);
  LifetimeScore out;
  std::vector<Lifetime> predicted;
  for (const auto& step : steps) {
    predicted.resize(step->lifespans.size());
    if (weights.empty()) {
      predict_base(step->sequence, predicted);
    } else {
      net.predict(step->sequence, predicted);
    }
    out += score_of(predicted, step->lifespans);
  }
  return out;
}

}  // namespace

LifetimeScore score_last_value(const SeenStep& step) {
  std::vector<Lifetime> predicted;
  for (const float log : step.sequence.last) {
    const double ticks = std::round(std::exp(log));
    predicted.push_back({ticks, ticks, ticks});
  }
  return score_of(predicted, step.lifespans);
}

Retraining retrain(const SeenSteps& steps, const NetworkWeights& active, const FitOptions& options,
                   const std::atomic<bool>* stop) {
  require(steps.size() >= kHeldOutEvery, "there are steps to learn from and steps to hold out");
  const auto start = Clock::now();
  std::vector<const Sequence*> learnt;
  SeenSteps held_out;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (i % kHeldOutEvery == kHeldOutEvery - 1) {
      held_out.push_back(steps[i]);
    } else {
      learnt.push_back(&steps[i]->sequence);
    }
  }
  FitResult fitted = fit(learnt, active, options, stop);
  Retraining out{.weights = std::move(fitted.weights), .arena_bytes = fitted.arena_bytes};
  out.candidate = score_with(held_out, out.weights, options);
  out.active = score_with(held_out, active, options);
  for (const auto& step : held_out) out.last_value += score_last_value(*step);
  out.is_better = out.candidate.pinball() < out.active.pinball() && out.candidate.pinball() < out.last_value.pinball();
  out.ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  return out;
}

}  // namespace neap
