// What a policy is: from costs and a budget it makes a plan. One file a policy; its line is in policies.cc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "neap/checkpointing.h"
#include "plan/plan.h"

namespace neap {

struct PlanningProblem {
  const Graph& graph;
  const Costs& costs;  // with times: measured, or guessed while nobody has measured
  Link link;
  const StateLayout* layout = nullptr;   // where the state lies already; null: where the plan puts it
  const StoredLevels* levels = nullptr;  // of what is kept; null: exact
};

inline bool has_choice_of_levels(const PlanningProblem& p) { return p.levels != nullptr && !p.levels->is_settled; }

// The same with nothing rounded but what is settled.
inline PlanningProblem without_choice(const PlanningProblem& p) {
  return {p.graph, p.costs, p.link, p.layout, has_choice_of_levels(p) ? nullptr : p.levels};
}

// In which level a plan may store the tensor, or has to, where that is settled.
inline precision::Level level_of(const PlanningProblem& p, TensorId id) {
  return p.levels != nullptr && id.index < p.levels->of.size() ? p.levels->of[id.index] : precision::Level::kFp32;
}

// Some tensor may be rounded, or has to be.
inline bool has_rounding(const PlanningProblem& p) {
  const auto is_rounded = [](precision::Level level) { return level != precision::Level::kFp32; };
  return p.levels != nullptr && std::ranges::any_of(p.levels->of, is_rounded);
}

inline StoredLevels levels_of(const PlanningProblem& problem) {
  return problem.levels != nullptr ? *problem.levels : StoredLevels{};
}

// What a plan may do to a layer beside keeping it.
enum class Means : std::uint8_t { kAgain, kSpill, kRounding };

// What a policy does by rule, whatever the figures of a layer are. Without its means the rule was not at work.
struct PolicyRule {
  Means means;
  std::string text;  // for people, behind the policy's name
};

class Policy {
 public:
  virtual ~Policy() = default;
  virtual std::string_view name() const = 0;
  virtual std::optional<PolicyRule> rule() const { return std::nullopt; }  // none: the figures decide
  // The plan of the least bytes that this policy knows.
  virtual Plan smallest(const PlanningProblem& problem) const = 0;
  // The fastest plan within the budget that this policy knows; none: not even its smallest fits.
  virtual std::optional<Plan> within(const PlanningProblem& problem, std::int64_t budget) const = 0;
  // The same, and behind it plans of another kind that fit and may be faster in fact, whatever the simulator says.
  // Empty: not even the smallest fits.
  virtual std::vector<Plan> candidates(const PlanningProblem& problem, std::int64_t budget) const;
  // The plan to begin with, while times are guesses.
  virtual std::optional<Plan> first(const PlanningProblem& problem, std::int64_t budget) const;
  // first() is made in no time and is not what within() would give: to be used while that is being made.
  virtual bool has_quick_first() const { return false; }
  // A plan that is slower than another one never is the better one.
  virtual bool is_after_time_alone() const { return true; }
  // It has plans of its own even where nothing limits them.
  virtual bool is_for_no_budget() const { return false; }
  // Plans get better when times are measured instead of guessed.
  virtual bool wants_times() const { return true; }
  // One as this was when it was made, before it learnt anything: equal problems give it equal plans. Null: this does
  // not learn.
  virtual std::shared_ptr<const Policy> untaught() const { return nullptr; }
  // What an agent has learnt, as text for another run; empty: it does not learn.
  virtual std::string learnt() const { return {}; }
  // Bytes that steering takes beside the arena.
  virtual std::int64_t own_bytes() const { return 0; }
};

// By the name that --policy takes; UserError lists the names when there is none such. An agent of its own for each.
// `may_spill`: the adaptive one and the oracle may, as the others that do always may.
std::shared_ptr<const Policy> make_policy(std::string_view name, const CheckpointingOptions& options = {},
                                          bool may_spill = false);

// The plan for a budget (none: store-all): a valid one, or the smallest where nothing fits.
Plan plan_within(const Policy& policy, const PlanningProblem& problem, std::optional<std::int64_t> budget);

// The same with its rivals behind it.
std::vector<Plan> plans_within(const Policy& policy, const PlanningProblem& problem,
                               std::optional<std::int64_t> budget);

// The same for the first plan of a run.
Plan first_plan(const Policy& policy, const PlanningProblem& problem, std::int64_t budget);

// `plan`, or, where it is above a budget that was proven with other costs, the smallest by those: what a search for few
// bytes finds depends on times.
Plan or_proven(Plan plan, const Policy& policy, const PlanningProblem& problem, const Costs& proven_with,
               std::optional<std::int64_t> budget);

// One an own file; store_all_policy.cc is the model to follow.
const Policy& store_all_policy();
const Policy& spill_policy();
const Policy& every_layer_policy();
const Policy& sqrt_policy();
const Policy& greedy_policy();
const Policy& dtr_policy();
const Policy& oracle_policy();  // by recomputation alone
// By all means that there are; takes seconds where there is more than recomputation.
std::shared_ptr<const Policy> joint_oracle_policy(bool may_spill);
const Policy& bf16_policy();
const Policy& int8_policy();
const Policy& int4_policy();

}  // namespace neap
