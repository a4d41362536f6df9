// How good predicted lifetimes were.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "pool/predictor.h"

namespace neap {

inline constexpr std::array<double, 3> kQuantiles = {0.1, 0.5, 0.9};

// Sums over events; a mean is what is asked for.
struct LifetimeScore {
  double pinball_sum = 0;
  std::size_t early = 0;    // needed longer than p90 said
  std::size_t outside = 0;  // of [p10, p90]
  std::size_t events = 0;

  // Mean pinball loss of ln(lifespan) over events and quantiles: max(q d, (q - 1) d), d = truth - prediction.
  double pinball() const { return events > 0 ? pinball_sum / static_cast<double>(events) : 0; }
  double early_rate() const { return rate(early); }
  double miss_rate() const { return rate(outside); }
  LifetimeScore& operator+=(const LifetimeScore& other);

 private:
  double rate(std::size_t count) const {
    return events > 0 ? static_cast<double>(count) / static_cast<double>(events) : 0;
  }
};

// Half a tick is no miss: lifespans are whole. Predictions that are no positive number count as 1 tick, endless ones as
// the longest that a step could be.
LifetimeScore score_of(std::span<const Lifetime> predicted, std::span<const Tick> lifespans);

}  // namespace neap
