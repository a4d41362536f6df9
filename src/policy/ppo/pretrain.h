// Pre-training of the agent in episodes that are played from a table of measured times.
#pragma once

#include <functional>
#include <vector>

#include "policy/ppo/agent.h"
#include "policy/ppo/measure.h"

namespace neap::ppo {

struct PretrainOptions {
  int rounds = 60;             // of learning
  int episodes = 48;           // a round
  int sequences = 3;           // an episode
  int chunks = 6;              // a sequence
  double noise = 0.03;         // of a measured time
  double strangeness = 0.1;    // how far an episode's times differ from the table's, so that it learns to look
  double switch_share = 0.05;  // of a chunk's time that a switch costs
};

// `told` gets the number of rounds done and the mean reward of the last one.
void pretrain(Agent& agent, const std::vector<Measured>& table, const PretrainOptions& options,
              const std::function<void(int, double)>& told);

// Time over that of the best action, mean over the table: what the agent's choices would cost there without tries.
double regret(Agent& agent, const std::vector<Measured>& table);

}  // namespace neap::ppo
