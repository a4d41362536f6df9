// What a layer did in a sequence: forward writes it chunk by chunk, backward reads it.
#pragma once

#include <cstdint>
#include <vector>

#include "recurrent/gear.h"

namespace neap {

struct TapeEntry {
  std::int64_t start = 0;   // the chunk's first time step
  std::int64_t length = 0;  // in time steps
  Gear gear;
  bool keeps_gates = true;
  friend bool operator==(const TapeEntry&, const TapeEntry&) = default;
};

// In the order of computation.
using Tape = std::vector<TapeEntry>;

// Between chunks of the sequence.
inline int switches_in(const Tape& tape) {
  int out = 0;
  for (std::size_t i = 1; i < tape.size(); ++i) {
    const bool is_same = tape[i].gear == tape[i - 1].gear && tape[i].keeps_gates == tape[i - 1].keeps_gates;
    out += is_same ? 0 : 1;
  }
  return out;
}

}  // namespace neap
