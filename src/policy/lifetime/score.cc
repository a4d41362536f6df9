#include "policy/lifetime/score.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "neap/error.h"

namespace neap {
namespace {

double log_ticks(double ticks) {
  constexpr double kLongest = std::numeric_limits<Tick>::max();
  return std::log(std::isnan(ticks) ? 1.0 : std::clamp(ticks, 1.0, kLongest));
}

}  // namespace

LifetimeScore& LifetimeScore::operator+=(const LifetimeScore& other) {
  pinball_sum += other.pinball_sum;
  early += other.early;
  outside += other.outside;
  events += other.events;
  return *this;
}

LifetimeScore score_of(std::span<const Lifetime> predicted, std::span<const Tick> lifespans) {
  require(predicted.size() == lifespans.size(), "one prediction a lifespan");
  constexpr double kHalfTick = 0.5;
  LifetimeScore out{.events = lifespans.size()};
  for (std::size_t i = 0; i < lifespans.size(); ++i) {
    const double truth = lifespans[i];
    const std::array<double, 3> given = {predicted[i].p10, predicted[i].p50, predicted[i].p90};
    for (std::size_t q = 0; q < given.size(); ++q) {
      const double d = log_ticks(truth) - log_ticks(given[q]);
      out.pinball_sum += std::max(kQuantiles[q] * d, (kQuantiles[q] - 1) * d) / static_cast<double>(given.size());
    }
    const bool is_early = !(truth <= given[2] + kHalfTick);
    const bool is_late = !(truth >= given[0] - kHalfTick);
    out.early += is_early ? 1 : 0;
    out.outside += is_early || is_late ? 1 : 0;
  }
  return out;
}

}  // namespace neap
