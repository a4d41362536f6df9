// The allocations of one step in program order, and how long each was really needed: what predictors see and learn
// from.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/storage.h"
#include "pool/predictor.h"

namespace neap {

struct StepEvents {
  std::vector<AllocationEvent> events;  // by tick
  std::vector<Tick> lifespans;          // exact, one an event
  std::vector<std::uint32_t> blocks;    // one an event: its block in the storage
  std::vector<Tick> tick_of;  // per call of the schedule, and one past the last: the first tick at or after it
};

// One event for each block that is neither state nor workspace: inputs at tick 0, then what the calls make. Ticks count
// the calls that run; those that storage made superfluous are left out.
StepEvents events_of(const Graph& graph, const Schedule& schedule, const Storage& storage, std::int64_t length);
StepEvents events_of(const Graph& graph, const Schedule& schedule, std::int64_t length);

// The same of a plan as it is executed, transfers included: bytes that come back are an allocation of backward. Without
// `tick_of`.
StepEvents events_of(const Graph& graph, const Plan& plan, std::int64_t length);

}  // namespace neap
