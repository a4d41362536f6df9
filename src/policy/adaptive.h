// The adaptive policy: a Q-learning agent chooses each layer's granularity. The exact plan teaches it, is what it is
// measured against, and runs whenever the agent knows nothing faster.
#pragma once

#include <memory>
#include <mutex>

#include "policy/layers.h"
#include "policy/policy.h"
#include "policy/q_learning/agent.h"

namespace neap {

// The layers as the agent sees them. The budget is what is left for activations when everything else has its place.
q_learning::Chain chain_of(const Recompute& r, std::span<const Layer> layers, std::int64_t budget);

// What the agent's choices keep.
Retention retention_of(const Recompute& r, std::span<const Layer> layers, const q_learning::Choices& choices);

class AdaptivePolicy final : public Policy {
 public:
  // `learnt` is the text of an agent's table; empty: it starts from nothing. `may_spill`: tensors may leave the arena,
  // too, where the user has named a place for them.
  AdaptivePolicy(q_learning::AgentOptions options, const std::string& learnt, bool may_spill = false);

  std::string_view name() const override { return "adaptive"; }
  Plan smallest(const PlanningProblem& problem) const override;
  // Every layer at granularity 1 where that fits: the first steps profile, and nobody knows yet what is dear.
  std::optional<Plan> first(const PlanningProblem& problem, std::int64_t budget) const override;
  bool has_quick_first() const override { return true; }
  bool is_after_time_alone() const override { return agent_.reward().memory == 0 && agent_.reward().bandwidth == 0; }
  std::optional<Plan> within(const PlanningProblem& problem, std::int64_t budget) const override;
  std::shared_ptr<const Policy> untaught() const override;
  // With transfers, beside it without, and transfers alone: what those take from the calls is hard to say ahead. And
  // what spills more, where the link need only be faster than it was.
  std::vector<Plan> candidates(const PlanningProblem& problem, std::int64_t budget) const override;
  std::string learnt() const override;
  std::int64_t own_bytes() const override { return agent_.bytes(); }

 private:
  struct Proposal {
    Plan plan;
    q_learning::Choices choices;
  };
  std::optional<Proposal> propose(const Recompute& r, std::span<const Layer> layers, const q_learning::Chain& chain,
                                  std::int64_t budget) const;

  // There is more that may become of a tensor than to be computed again.
  bool has_more(const PlanningProblem& problem) const { return may_spill_ || has_choice_of_levels(problem); }
  // The fastest first.
  std::vector<Plan> best_of_each_kind(const PlanningProblem& problem, std::int64_t budget) const;
  // By computing again alone.
  std::optional<Plan> recomputing(const PlanningProblem& problem, std::int64_t budget) const;

  // Planning happens on one thread at a time, but not always on the same.
  q_learning::AgentOptions options_;  // both as they were given
  std::string given_;
  mutable std::mutex mutex_;
  mutable q_learning::Agent agent_;
  bool may_spill_;
  mutable q_learning::Choices run_;  // the agent's, while its plan runs; empty: the exact plan does
};

}  // namespace neap
