// Walks a plan in program order without a device: peak bytes and time. Safety never depends on the time.
#pragma once

#include <vector>

#include "plan/plan.h"

namespace neap {

struct Simulation {
  std::int64_t peak_bytes = 0;  // the highest arena byte that any instruction uses
  double ms = 0;
  double recomputed_ms = 0;
  double transfer_ms = 0;  // of the channel, whether anyone waits or not
  double stalled_ms = 0;   // calls held up by transfers
  std::int64_t spilled_bytes = 0;
  double codec_ms = 0;                   // of encoding and decoding
  std::int64_t encoded_bytes = 0;        // that encoding leaves
  std::vector<std::int64_t> live_bytes;  // per instruction
};

// That a call or a codec takes; 0: it is a transfer.
double call_ms(const Instruction& in, const Costs& costs);

// Transfers go through one channel, first in, first out, as fast as `link` says.
Simulation simulate(const Plan& plan, const Costs& costs, const Link& link = {});

}  // namespace neap
