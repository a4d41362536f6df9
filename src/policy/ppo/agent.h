// The agent that chooses how recurrent layers run: one policy for all of them, hard limits and patience around it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/random.h"
#include "policy/ppo/actor_critic.h"

namespace neap::ppo {

struct AgentOptions {
  std::vector<Gear> gears = default_gears();
  PpoOptions ppo;
  int dwell = 2;          // chunks that an action stays at least
  int most_switches = 4;  // of a layer in one sequence
  double discount = 0.9;  // of rewards, from chunk to chunk
  double trace = 0.9;     // lambda of the advantages
  std::uint64_t seed = 0;
};
// UserError for nonsense.
void check(const AgentOptions& options);

class Agent {
 public:
  explicit Agent(AgentOptions options);

  const std::vector<Action>& actions() const { return actions_; }

  // Room for so many choices of so many layers in a sequence: up to there, choices allocate nothing.
  void reserve(std::size_t layers, std::size_t choices);
  // A layer's sequence begins: its switches are counted anew.
  void begin_sequence(std::size_t layer);
  // The action for the layer's next chunk. Never one that `state` does not allow; another than `current` only after its
  // time and while switches are left, unless `current` is not allowed any more.
  std::size_t select_execution_profile(std::size_t layer, std::size_t current, const LayerState& state);
  // What came of the layer's choices since begin_sequence(), in their order.
  void end_sequence(std::size_t layer, std::span<const double> rewards);

  // Probability of the last choice, exploration included.
  double last_probability() const { return last_probability_; }
  // Learns from the sequences since the last time. Some milliseconds.
  void learn(int passes = 3);
  std::size_t remembered() const { return memory_.count; }
  // The actions that it holds best, without tries: for inference, say.
  std::size_t best(std::size_t current, const LayerState& state);

  ActorCritic& network() { return network_; }
  std::int64_t bytes() const { return network_.bytes(); }

 private:
  // Moments whose memory stays when they are forgotten.
  struct Moments {
    std::vector<Moment> slots;
    std::size_t count = 0;
    Moment& next();
    std::span<Moment> all() { return {slots.data(), count}; }
  };
  struct Layer {
    int since_switch = 1 << 20;
    int switches = 0;
    Moments moments;
  };
  Layer& at(std::size_t layer);
  void set_mask(const Layer& layer, std::size_t current, const LayerState& state, std::vector<bool>& allowed) const;

  AgentOptions options_;
  std::vector<Action> actions_;
  ActorCritic network_;
  std::vector<Layer> layers_;
  Moments memory_;
  RandomStream random_;
  double last_probability_ = 1;
};

}  // namespace neap::ppo
