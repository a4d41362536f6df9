// Plans made by the temporal pool: it walks the calls in program order and knows lifetimes only from a predictor. What
// comes out is an ordinary plan, so that there is one kind of allocation at run time. It is quick, and made for shapes
// that nobody has seen before; the exact planner can follow in the background.
#pragma once

#include <optional>
#include <string>

#include "pool/events.h"

namespace neap {

struct PoolSettings {
  std::int64_t capacity = kNoBudget;     // of the arena, state included
  const StateLayout* layout = nullptr;   // where the state lies already; null: at the bottom
  std::int64_t length = 0;               // of the batch
  Link link;                             // by which fetches begin early; unknown: a few calls before
  bool may_spill = true;                 // else what does not fit is refused
  std::int64_t spill_bytes = kNoBudget;  // room outside of the arena
};

struct PoolStats {
  std::int64_t peak_bytes = 0;     // state included
  std::int64_t spilled_bytes = 0;  // written
  std::int64_t fetched_bytes = 0;
  std::int64_t expired_early = 0;  // blocks that were still referenced when their p90 was over
  std::int64_t expired_late = 0;   // blocks that nobody needed any more before their p10
  std::int64_t shared = 0;         // blocks in space that others had used before
};

struct PoolOutcome {
  std::optional<Plan> plan;        // valid; none: it does not fit, and the caller takes the exact plan
  std::string reason;              // why there is none
  std::int64_t minimum_bytes = 0;  // no plan can do with less: the state and the largest call
  PoolStats stats;
  StepEvents events;  // for the predictor to learn from, once the step has run
};

PoolOutcome plan_with_pool(const Graph& graph, const Costs& costs, LifetimePredictor& predictor,
                           const PoolSettings& settings);

// The plan alone.
std::optional<Plan> pool_plan(const Graph& graph, const Costs& costs, LifetimePredictor& predictor,
                              std::int64_t capacity, const StateLayout* layout, std::int64_t length);

}  // namespace neap
