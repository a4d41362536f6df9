// Between scheduling and storage: moves the begin of fetches forward and the wait of spills back, so that transfers run
// beside the calls. Stands here since only before blocks are laid out does it show in their lifetimes what that costs.
#pragma once

#include "plan/schedule.h"

namespace neap {

// The schedule has every wait right behind its begin. Transfers stay in their order (they go through one channel, first
// in, first out); at most decisions.flight_bytes are on their way besides the one that is waited for.
void spread_transfers(Schedule& schedule, const Graph& graph, const Costs& costs, const Decisions& decisions);

// Milliseconds that a transfer takes; 0 where the link is not known.
double transfer_ms(const Link& link, Action action, std::int64_t bytes);

}  // namespace neap
