// How long recurrent layers take on this machine, by gear and gate policy: what pre-training learns from.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "policy/ppo/layer_run.h"
#include "policy/ppo/state.h"

namespace neap::ppo {

// Architectures, lengths, batch sizes, inputs as wide as a layer below or as narrow as an embedding of tokens.
std::vector<Setting> default_settings();

// One row of a table: microseconds a time step of forward and backward, one an action.
struct Measured {
  Setting setting;
  std::vector<double> us;
  bool is_busy = false;  // others kept the processors busy meanwhile
};

struct MeasureOptions {
  double seconds = 60;  // no new setting is begun afterwards
  int rounds = 4;       // the least of so many counts
};

// `told` gets each row as it is there.
std::vector<Measured> measure(const std::vector<Setting>& settings, const std::vector<Action>& actions,
                              const MeasureOptions& options, const std::function<void(const Measured&)>& told);

// What is timed: the time that passes, or that the calling thread had a processor, which on one thread is the same less
// what others took away.
enum class Timer : std::uint8_t { kElapsed, kThread };

// Microseconds a time step of each action, forward and backward over a whole sequence; the least of `rounds`, which go
// through all actions in turn.
std::vector<double> times_of(const Setting& setting, const std::vector<Action>& actions, int rounds,
                             Timer timer = Timer::kElapsed);

// The same for tapes: the gates kept, and for each chunk the next gear of the tape.
std::vector<double> times_of_tapes(const Setting& setting, const std::vector<std::vector<Gear>>& tapes, int rounds,
                                   Timer timer = Timer::kElapsed);

}  // namespace neap::ppo
