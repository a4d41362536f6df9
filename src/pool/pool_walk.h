// One walk over the calls of a step with a pool: where each block lies, and what leaves and comes back in between.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pool/events.h"
#include "pool/pool_plan.h"

namespace neap {

struct WalkInput {
  const Graph& graph;
  const Costs& costs;
  const Schedule& schedule;  // without transfers
  const Storage& storage;
  const StepEvents& events;
  const std::vector<Lifetime>& lifetimes;  // one an event
  const PoolSettings& settings;
  bool may_spill = false;
};

struct WalkResult {
  std::optional<Plan> plan;
  std::string reason;
  PoolStats stats;
};

WalkResult walk_with_pool(const WalkInput& input);

}  // namespace neap
