// The network that all recurrent layers share: it scores each action of a state by itself, so it serves any list of
// gears, and says what the state is worth. On Neap's own graph (policy/network).
//
// Learning is PPO: -min(r * A, clip(r, 1 - c, 1 + c) * A) + (V - R)^2 / 2 - b * entropy. The ratio r is that of the
// policy that acts, exploration included: (1 - e) * p(a) + e * share(a) on both sides, shares of tries fixed.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "policy/network/network.h"
#include "policy/ppo/state.h"

namespace neap::ppo {

// A decision and what came of it.
struct Moment {
  std::vector<Row> rows;      // one an action
  std::vector<bool> allowed;  // what the policy chose from
  std::size_t action = 0;
  double probability = 1;   // with which it was taken, exploration included
  double explore = 0;       // as much of it as tries alone have
  double value = 0;         // that the critic gave the state
  bool is_certain = false;  // there was one action only, and nobody was asked
  double advantage = 0;
  double target = 0;  // what the state turned out to be worth
};

// The probability of an action under the policy that acts; `share`: of the tries.
inline double behaviour(double policy, double epsilon, double share) {
  return (1 - epsilon) * policy + epsilon * share;
}

struct PpoOptions {
  double epsilon = 0.02;  // share of the choices that explore
  double clip = 0.2;
  double entropy = 0.003;
  double lr = 2e-3;
};

class ActorCritic {
 public:
  ActorCritic(std::size_t actions, const PpoOptions& options, std::uint64_t seed);

  struct Output {
    std::vector<double> policy;  // one an action, 0 where it is not allowed
    double value = 0;
  };
  const Output& evaluate(const std::vector<Row>& rows, const std::vector<bool>& allowed);
  // Some passes over the moments, in batches of kBatch. Makes the network that trains when it is first called.
  void learn(std::span<const Moment> moments, int passes);
  // Of the last batch, before its update: the ratio of each moment. For tests.
  const std::vector<double>& ratios() const { return ratios_; }

  const NetworkWeights& weights() const { return weights_; }
  void load(const NetworkWeights& weights);  // UserError when names, sizes or numbers are not those of such a network
  std::int64_t bytes() const;                // of its arenas and weights

  static constexpr std::int64_t kBatch = 64;
  static constexpr std::int64_t kPart = 8;  // of a batch, that is in memory at a time

 private:
  void train_batch(std::span<const Moment> batch);
  void put_part(std::span<const Moment> part, float weight);

  std::size_t actions_;
  PpoOptions options_;
  std::uint64_t seed_;
  Network acting_;
  std::unique_ptr<Network> learning_;
  NetworkWeights weights_;
  Output output_;
  std::vector<double> ratios_;
  std::int64_t updates_ = 0;
};

}  // namespace neap::ppo
