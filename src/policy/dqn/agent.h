// The agent that picks a strategy for each subgraph. It starts as a table (compute-bound: the compute set;
// memory-bound: the memory set) and becomes a one-step Q-network, a small Neap graph, as rewards come in. One step:
// what a strategy gives a subgraph is known as soon as it was timed, so there is nothing to discount.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "optimize/optimization.h"
#include "policy/network/network.h"

namespace neap::dqn {

// What the agent sees of a subgraph.
struct State {
  double nodes = 0;
  double gflop = 0;  // of a step
  double bytes = 0;  // read and written, counted
  double ms = 0;
  double share = 0;      // of the roofline
  double bandwidth = 0;  // share of the machine's
  bool is_compute_bound = false;
  int strategy = 0;  // the present one: 0 none, i + 1 the i-th of the library
};
inline constexpr std::size_t kFeatures = 8;
std::array<float, kFeatures> features_of(const State& state);

// Time saved relative to doing nothing, and a little for bytes that memory is spared: in parts of the subgraph's time.
struct Reward {
  double time = 1;
  double bandwidth = 0.1;
};
double reward_of(const Reward& reward, double plain_ms, double ms, double plain_bandwidth, double bandwidth);

struct AgentOptions {
  int training_epochs = 50;  // RL_training_epochs: passes over the replay whenever rewards have come
  std::size_t replay = 512;  // rewards that are remembered
  double rate = 0.02;
  Reward reward;
  std::uint64_t seed = 0;
};
// UserError for nonsense.
void check(const AgentOptions& options);

class Agent {
 public:
  // Of each strategy its kind. There is one action more: to do nothing, which is 0.
  Agent(std::vector<Strategy> library, const AgentOptions& options);
  ~Agent();

  // What the document's table says: the first of the set that fits the bound, 0 where there is none.
  int by_table(const State& state) const;
  // The best action by what it knows: the table before the first reward, then the network.
  int choose(const State& state);
  // The network's word on every action, in parts of the subgraph's time.
  std::vector<double> values(const State& state);

  void remember(const State& state, int action, double reward);
  // Trains on what is remembered.
  void learn();

  std::size_t remembered() const { return replay_.size(); }
  std::int64_t bytes() const;  // of its networks, and of what it remembers

 private:
  struct Sample {
    std::array<float, kFeatures> features;
    int action = 0;
    float reward = 0;
  };
  struct Networks;

  void fill(std::size_t first);

  std::vector<Strategy> library_;
  AgentOptions options_;
  std::vector<Sample> replay_;
  std::size_t next_ = 0;  // that is overwritten when the replay is full
  std::int64_t steps_ = 0;
  std::unique_ptr<Networks> networks_;
};

}  // namespace neap::dqn
