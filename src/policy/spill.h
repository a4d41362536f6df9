// Spilling: which tensors leave the arena beside what a plan does anyway, and how much may be on its way.
#pragma once

#include <optional>
#include <span>

#include "policy/policy.h"

namespace neap {

// Per tensor: a spill can move it from forward to backward, and its bytes are worth a transfer.
std::vector<bool> find_spillable(const Graph& graph, const std::vector<Window>& views);

// Tensors that `base` keeps from forward to backward and that may leave, those with the longest wait first: what is
// made early in forward is needed late in backward, and lies idle the longest.
std::vector<TensorId> spill_order(const Graph& graph, const Costs& costs, const Decisions& base);

// `base` with the first `count` of the order spilled.
Decisions spill_first(Decisions base, const Graph& graph, const std::vector<TensorId>& order, std::size_t count,
                      std::int64_t flight_bytes, const Link& link);

struct TimedPlan {
  Plan plan;
  double ms = 0;  // as the simulator sees it
};

// One search for a plan that spills beside what `base` does.
class SpillSearch {
 public:
  // Of those that may leave `first` do so before the others.
  SpillSearch(const PlanningProblem& problem, Decisions base, std::span<const TensorId> first = {});

  // The fastest within the budget. Plans whose step can be run again when spilled bytes are lost come first.
  std::optional<TimedPlan> fastest(std::int64_t budget) const;
  // Everything that can leave does, one transfer at a time, also within forward or backward if that helps, and
  // weights change early.
  Plan smallest() const;

 private:
  // From the one that gives the most for safety and speed to the one that takes the fewest bytes.
  struct Way {
    bool early = false;                  // Decisions::early_updates
    std::uint32_t every_wait_above = 0;  // Decisions::every_wait_above
  };
  static constexpr Way kWays[] = {{false, 0}, {true, 0}, {true, 6}, {true, 2}, {true, 1}};

  Decisions decisions(std::size_t count, std::int64_t flight, Way way) const;
  std::optional<Plan> plan_with(std::int64_t flight, Way way, std::int64_t budget) const;
  std::size_t fewest(std::int64_t flight, Way way, std::int64_t budget) const;
  bool has_room(std::size_t count, Way way) const;
  const std::vector<TensorId>& order(Way way) const { return way.every_wait_above > 0 ? every_order_ : order_; }
  std::int64_t stored_bytes(TensorId id) const;  // outside of the arena

  const PlanningProblem& p_;
  Decisions base_;
  std::vector<Window> views_;
  std::vector<TensorId> order_;
  std::vector<TensorId> every_order_;  // where every wait counts
};

// The calls of `plan`, in its order, with transfers chosen and placed anew for what the link is known to be by now.
std::optional<TimedPlan> spilled_anew(const PlanningProblem& problem, const Plan& plan, std::int64_t budget);

}  // namespace neap
