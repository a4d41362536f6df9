// The LSTM that predicts lifetimes: 32 units over the events of a step, p10, p50 and p90 of ln(lifespan), pinball loss.
// Built, differentiated, planned and run by Neap itself.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "policy/lifetime/features.h"
#include "policy/network/network.h"

namespace neap {

inline constexpr std::int64_t kLifetimeUnits = 32;

// Predicts one step at a time, in pieces between which the state is carried.
class QuantileNet {
 public:
  explicit QuantileNet(std::uint64_t seed);
  void load(const NetworkWeights& weights) { network_.load(weights); }
  // Whole ticks, p10 <= p50 <= p90.
  void predict(const Sequence& step, std::span<Lifetime> out);
  std::int64_t arena_bytes() const { return network_.arena_bytes(); }

 private:
  Network network_;
};

// What a sequence says without any network.
void predict_base(const Sequence& step, std::span<Lifetime> out);

struct FitOptions {
  int updates = 400;
  double lr = 1e-2;  // falls to a hundredth along a cosine
  bool uses_history = true;
  std::uint64_t seed = 0;
};

struct FitResult {
  NetworkWeights weights;
  std::int64_t arena_bytes = 0;  // taken while it trained
  double loss = 0;               // mean over the last tenth of the updates
};

// Trains on whole steps, each as it was seen and as though nothing had been known before it. A function of its
// arguments alone, unless `stop` becomes true. `start` empty: from the seed.
FitResult fit(const std::vector<const Sequence*>& steps, const NetworkWeights& start, const FitOptions& options,
              const std::atomic<bool>* stop = nullptr);

}  // namespace neap
