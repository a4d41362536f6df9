// Times of a recurrent layer on this machine, by gear and gate policy.
#pragma once

#include <cstdint>
#include <vector>

#include "recurrent/gear.h"

namespace neap::bench {

struct Action {
  Gear gear;
  bool keeps_gates = true;
};

struct Setting {
  CellKind kind = CellKind::kLstm;
  std::int64_t steps = 64;  // of the sequence; a multiple of the chunk
  std::int64_t batch = 1, input = 1, hidden = 1;
  std::int64_t chunk = 16;
};

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

}  // namespace neap::bench
