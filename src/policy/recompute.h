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
inline constexpr Position kThrough = -1;

// A tensor of forward waits for its first use in backward, then for its second, and so on: each wait is one number.
// kThrough: it stays. Else it is gone when the wait begins, and a run that makes it again at position p leaves it for
// the use that ends the wait if p >= the number; an earlier run only passes through. So 0 is plain recomputation, the
// position of the use the least bytes, and what lies between makes segments within segments.
using Retention = std::vector<Position>;
using Wait = std::uint32_t;  // index into a Retention

// What recomputation needs to know of a program.
struct Recompute {
  explicit Recompute(const PlanningProblem& problem);

  const PlanningProblem& problem;
  std::vector<Window> views;
  std::vector<NodeId> forward;               // that run, in program order
  std::vector<NodeId> backward;              // the same
  std::vector<std::vector<TensorId>> reads;  // per node: tensors of forward that it reads, views resolved, once each
  // Per tensor: made by a node of forward that may run again. None that is settled to be rounded, nor what would be
  // made from it: other plans would then read other values.
  std::vector<bool> is_forward;
  std::vector<Wait> waits;        // per tensor: its first; one more stands at the end
  std::vector<Position> ends;     // per wait: the use that ends it; backward.size(): no use does
  std::vector<TensorId> waiting;  // per wait
  Retention store_all;            // all stays, but for what one cheap pass makes again
  // Per tensor: a lossless form of what is settled to be rounded. Made from that, always, whatever a retention says.
  std::vector<bool> is_bound;

  Wait first_wait(TensorId id) const { return waits[id.index]; }
  // The first use in backward; backward.size(): none.
  Position first_use(TensorId id) const { return ends[first_wait(id)]; }
  bool is_used(TensorId id) const { return first_use(id) < static_cast<Position>(backward.size()); }
  std::int64_t bytes_of(TensorId id) const;
  double ms_of(NodeId id) const;
  // The whole that the tensor is written into when it is a part of a concatenation; else itself.
  TensorId whole_of(TensorId id) const { return whole_[id.index]; }

 private:
  void find_makers(const Node& node, const Decisions& lossless);
  void find_waits();
  std::vector<TensorId> whole_;
};

Decisions decisions_of(const Recompute& r, const Retention& retention);

// Without packing.
Footprint footprint_of(const Recompute& r, const Retention& retention, std::int64_t budget = kNoBudget);

Plan plan_of(const Recompute& r, const Retention& retention);

// What an order of anyone's keeps: the way back from decisions_of().
Retention retention_of(const Recompute& r, const std::vector<NodeId>& order);

}  // namespace neap
