// What the agent for recurrent layers sees and may choose.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "recurrent/gear.h"

namespace neap::ppo {

struct Action {
  Gear gear;
  bool keeps_gates = true;
  friend bool operator==(const Action&, const Action&) = default;
};

// Every gear with the gates kept, then every gear with them made again.
std::vector<Action> actions_of(std::span<const Gear> gears);

// Of one layer, before a chunk. Readings that are absent are told to the network as such, and weigh nothing in the
// reward.
struct LayerState {
  CellKind kind = CellKind::kLstm;
  std::int64_t steps = 0;  // of the whole sequence
  std::int64_t batch = 0, input = 0, hidden = 0;
  std::int64_t chunk = 0;  // steps of the chunk
  bool is_training = true;
  std::optional<double> utilisation;  // 0 to 1
  std::optional<double> miss_rate;    // 0 to 1
  double headroom = 1;                // share of the budget that is free
  double pace = 1;                    // time of the last chunk over what that action took before
  // One an action: whether the hard limits leave it, and microseconds a time step as measured so far (0: never).
  std::vector<bool> allowed;
  std::vector<double> measured_us;
  std::vector<int> visits;  // sequences that this was measured in (policy/ppo/times.h); empty: nobody counts
};

// One row an action: the layer, then the action, then what is known of it here.
inline constexpr std::size_t kFeatures = 23;
using Row = std::array<float, kFeatures>;
void fill_rows(const LayerState& state, std::span<const Action> actions, std::size_t current, std::vector<Row>& rows);

// 0 is the best that can be had; what is lost is counted in parts of the best action's time.
struct RewardParts {
  double us = 0;         // a time step, measured
  double best_us = 0;    // of the best action known for this layer
  double switch_us = 0;  // what the switch cost, spread over the time steps that it was for
  std::optional<double> miss_rate;
};
inline constexpr double kMissWeight = 0.02;
double reward_of(const RewardParts& parts);

}  // namespace neap::ppo
