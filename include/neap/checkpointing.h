// Settings of the agent that decides what is stored and what is computed again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace neap {

struct RewardWeights {
  double time = 1;
  double memory = 0;
  double bandwidth = 0;
};

struct CheckpointingOptions {
  std::vector<int> every = {2, 4, 8};    // checkpoints every N layers: the N that are offered beside 1
  std::string reward = "constrained";    // or "document": -memory - 0.1 * time
  std::optional<RewardWeights> weights;  // instead of the reward's own
  double epsilon = 0.02;                 // share of choices that explore
  std::string learnt;                    // what an agent learnt elsewhere (Trainer::learnt()); empty: nothing
  std::uint64_t seed = 0;
};

}  // namespace neap
