// Recomputation as numbers: for each forward tensor, from when on backward keeps it. All policies that recompute work
// on these numbers; the order of runs follows from them, and the plan from the order.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"
#include "policy/policy.h"

namespace neap {

// Index into Recompute::backward: the clock of backward.
using Position = std::int32_t;
inline constexpr Position kFromForward = -1;

// Per tensor. kFromForward: kept when forward makes it. Else it is gone when forward ends, and a run that makes it
// again at position p leaves it for later readers if p >= its number; an earlier run only passes through. So 0 is plain
// recomputation, its first use in backward the least bytes, and what lies between makes segments within segments.
using Retention = std::vector<Position>;

// What recomputation needs to know of a program.
struct Recompute {
  explicit Recompute(const PlanningProblem& problem);

  const PlanningProblem& problem;
  std::vector<Window> views;
  std::vector<NodeId> forward;   // that run, in program order
  std::vector<NodeId> backward;  // the same
  std::vector<std::vector<TensorId>>
      reads;                        // per node: the tensors of forward that it reads, views resolved, once each
  std::vector<Position> first_use;  // per tensor of forward, by backward; backward.size(): never
  Retention store_all;              // what backward reads is kept, but for what one cheap pass makes again
  std::vector<bool> is_forward;     // per tensor: made by a node of forward that may run again

  std::int64_t bytes_of(TensorId id) const;
  double ms_of(NodeId id) const;
  // The whole that the tensor is written into when it is a part of a concatenation; else itself.
  TensorId whole_of(TensorId id) const { return whole_[id.index]; }

 private:
  std::vector<TensorId> whole_;
};

Decisions decisions_of(const Recompute& r, const Retention& retention);

// Without packing.
Footprint footprint_of(const Recompute& r, const Retention& retention, std::int64_t budget = kNoBudget);

Plan plan_of(const Recompute& r, const Retention& retention);

}  // namespace neap
