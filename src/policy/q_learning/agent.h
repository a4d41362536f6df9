// A Q-learning agent that chooses a granularity for each layer, left to right. Its states are relative (pressure, bytes
// per time, position, bound), so what it learnt on one network starts it on another.
#pragma once

#include <iosfwd>
#include <vector>

#include "policy/q_learning/chain.h"

namespace neap::q_learning {

struct AgentOptions {
  std::vector<int> every = {2, 4, 8};  // the N that are offered
  Reward reward;
  double rate = 0.2;      // of learning, at first; falls with the visits of a state
  double epsilon = 0.02;  // share of choices that explore
  int lessons = 64;       // episodes that the exact plan teaches, at budgets around the given one
  int refinements = 64;   // episodes of its own after that
  std::uint64_t seed = 0;
};
// UserError for nonsense.
void check(const AgentOptions& options);

class Agent {
 public:
  explicit Agent(AgentOptions options);

  // Episodes that the exact plan plays, then own ones. Cheap: thousands of layers in milliseconds.
  void learn(const Chain& chain);
  // The choices that it holds best; with `explore`, some at random. Always within the budget; none: nothing is.
  std::optional<Choices> propose(const Chain& chain, bool explore = false);
  // From what was run and measured: the reward of each choice, in order. Nothing where the budget forbids them by now.
  void reinforce(const Chain& chain, const Choices& choices, std::span<const double> rewards);

  const std::vector<Choice>& offered() const { return offered_; }
  const Reward& reward() const { return options_.reward; }
  std::int64_t bytes() const;  // of its table

  // The table as text, for another run; UserError names what is wrong with it.
  void save(std::ostream& out) const;
  void load(std::istream& in);

 private:
  struct Cell {
    float value = 0;  // reward to come, in parts of the time still to be decided: the same early and late in a chain
    std::uint32_t visits = 0;
  };
  struct Moment {  // one decision of an episode
    std::size_t state = 0;
    std::size_t action = 0;
    double reward = 0;
    double rest = 1;                   // share of the chain's time that is still to be decided
    std::vector<std::size_t> allowed;  // what could have been chosen
  };
  class Walk;

  Cell& cell(std::size_t state, std::size_t action) { return table_[state * offered_.size() + action]; }
  const Cell& cell(std::size_t state, std::size_t action) const { return table_[state * offered_.size() + action]; }
  std::size_t best_of(std::size_t state, std::span<const std::size_t> allowed) const;
  void backup(const std::vector<Moment>& moments);
  void imitate(const Chain& chain);
  double random();

  AgentOptions options_;
  std::vector<Choice> offered_;
  std::vector<Cell> table_;
  std::uint64_t draws_ = 0;
};

}  // namespace neap::q_learning
