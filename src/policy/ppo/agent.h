// The agent that chooses how recurrent layers run: one policy for all of them, hard limits and patience around it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/random.h"
#include "policy/ppo/actor_critic.h"
#include "policy/ppo/standing.h"

namespace neap::ppo {

struct AgentOptions {
  std::vector<Gear> gears = default_gears();
  PpoOptions ppo;
  int dwell = 2;          // chunks that an action stays at least
  int most_switches = 4;  // of a layer in one sequence
  double discount = 0.9;  // of rewards, from chunk to chunk
  double trace = 0.9;     // lambda of the advantages
  std::uint64_t seed = 0;
  std::size_t most_moments = 1024;  // that a lesson is about; what comes after them is not remembered
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
  //
  // Where visits are counted (`state.visits`), the policy chooses among what is in question (standing.h) when a
  // sequence begins, and the sequence keeps to that: another one only to try, or where the limits demand it. Where
  // nothing is in question any more, nobody is asked.
  std::size_t select_execution_profile(std::size_t layer, std::size_t current, const LayerState& state);
  // The same without asking the network and without tries: the fastest that is known.
  std::size_t settle(std::size_t layer, std::size_t current, const LayerState& state);
  // What came of the layer's choices since begin_sequence(), in their order.
  void end_sequence(std::size_t layer, std::span<const double> rewards);

  // Probability of the last choice, exploration included; of one where nobody was asked, what it is at least.
  double last_probability() const { return last_probability_; }
  // Learns from the sequences since the last time. Some milliseconds.
  void learn(int passes = 3);
  std::size_t remembered() const { return memory_.count; }
  // The actions that it holds best, without tries: for inference, say.
  std::size_t best(std::size_t current, const LayerState& state);

  ActorCritic& network() { return network_; }
  std::int64_t bytes() const;  // of its network, and of what it remembers

 private:
  // Moments whose memory stays when they are forgotten.
  struct Moments {
    std::vector<Moment> slots;
    std::size_t count = 0;
    Moment& next();
    std::span<Moment> all() { return {slots.data(), count}; }
    std::int64_t bytes() const;
  };
  struct Layer {
    int since_switch = 1 << 20;
    int switches = 0;
    bool is_begun = false;  // the sequence has chosen what it keeps to
    std::size_t home = 0;
    Moments moments;
  };
  Layer& at(std::size_t layer);
  // What limits and patience leave, to limits_.
  void set_limits(const Layer& layer, std::size_t current, const LayerState& state);
  void set_choice(const Layer& layer, std::size_t current, const LayerState& state, Moment& m);
  bool goes_on(const Layer& layer, const LayerState& state) const;
  void draw(Moment& m, const std::vector<double>& policy, double epsilon);
  std::size_t take(Layer& layer, std::size_t current, std::size_t chosen);

  AgentOptions options_;
  std::vector<Action> actions_;
  ActorCritic network_;
  std::vector<Layer> layers_;
  Moments memory_;
  RandomStream random_;
  std::vector<bool> limits_;
  Standing standing_;
  std::vector<double> certain_;  // a policy that has no choice
  double last_probability_ = 1;
};

}  // namespace neap::ppo
