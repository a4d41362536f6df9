// Weights that do not fit: which stay in the arena, and which wait outside and come in ahead of the calls that read
// them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "policy/policy.h"

namespace neap {

// What several plans on the same weights have in common.
struct WeightsOutside {
  std::vector<std::string> names;  // in the order of their slots
  std::int64_t flight_bytes = 0;   // see Decisions
  Link link;
};

// `base` with those weights outside. Each comes in as early as the bytes on their way allow: that takes no guess of how
// fast the link is.
Decisions with_weights_outside(Decisions base, const Graph& graph, const WeightsOutside& outside);

// The plan with those weights outside that uses what the budget has left, at each moment, to bring them in early. Above
// the budget where nothing fits.
Plan plan_with_weights_outside(const Graph& graph, const Costs& costs, const WeightsOutside& outside,
                               std::int64_t budget, const StateLayout* layout = nullptr);

// Of a plan's slots: the names of what is in them.
std::vector<std::string> slot_names(const Plan& plan, const Graph& graph);

struct WeightPlan {
  WeightsOutside outside;
  Plan plan;
};

// For graphs that change no weights: inference. Calls are those of the program, in its order.
class WeightSearch {
 public:
  explicit WeightSearch(const PlanningProblem& problem);

  // Everything outside that can be, and one comes in at a time.
  WeightPlan smallest() const;
  // The fastest within the budget, as the simulator sees it; of equally fast ones the one that moves the fewest bytes.
  // None: not even the smallest fits.
  std::optional<WeightPlan> fastest(std::int64_t budget) const;

 private:
  struct Candidate {
    TensorId id;
    std::int64_t bytes = 0;
    std::int64_t moved_bytes = 0;  // in a step, if it is outside
    std::size_t first_use = 0;
  };
  using Order = std::vector<std::size_t>;  // of candidates
  struct Choice {
    std::vector<bool> is_outside;  // one a candidate
    std::int64_t flight_bytes = 0;
  };
  struct Timed {
    Choice choice;
    double ms = 0;
    std::int64_t moved_bytes = 0;
  };

  void find_candidates();
  std::vector<Order> orders() const;
  std::vector<std::int64_t> flights() const;
  WeightsOutside outside_of(const Choice& choice) const;
  bool fits(const Choice& choice, std::int64_t budget) const;
  Choice first_of(const Order& order, std::size_t count, std::int64_t flight) const;
  std::optional<Choice> least_outside(const Order& order, std::int64_t flight, std::int64_t budget) const;
  void bring_back(Choice& choice, std::int64_t budget) const;
  void widen_flight(Choice& choice, std::int64_t budget) const;
  Timed timed(Choice choice, std::int64_t budget) const;
  std::vector<Timed> by_time(std::int64_t budget) const;
  WeightPlan planned(const Choice& choice, std::int64_t budget) const;

  const PlanningProblem& p_;
  std::vector<Window> views_;
  std::vector<Candidate> candidates_;  // by first use
};

}  // namespace neap
