// Which ways to run a layer are still in question, by what they took: successive elimination around the policy.
//
// The time of a step is close to a + b * (pieces a step): what a piece costs by itself (packing, products, a parallel
// region) is spread over its steps. So two measured gears tell what the others would take, and those that cannot win
// are never run. Actions that cut the sequence into the same pieces are one.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "policy/ppo/state.h"

namespace neap::ppo {

struct Standing {
  std::vector<bool> runs;       // what the policy chooses from: those in question, else the best and its equals
  std::vector<double> weights;  // of tries, at most 1: less for what is known to be slow
  std::vector<double> us;       // measured, or reckoned from others; 0: nothing is known
  bool is_open = false;         // there is something to find out
  std::size_t best = 0;         // of those measured; the number of actions: none is

  // For judge() alone: what tells the cuts of actions apart, and their pieces a step.
  std::vector<std::int64_t> cuts;
  std::vector<double> pieces;

  void resize(std::size_t actions);
};

// Of the actions in `allowed`. `state.visits` says how often each was measured.
void judge(const LayerState& state, std::span<const Action> actions, const std::vector<bool>& allowed,
           std::size_t current, Standing& out);

// Pieces a time step, over the whole sequence.
double pieces_a_step(const Gear& gear, std::int64_t steps, std::int64_t chunk);

}  // namespace neap::ppo
