// The names that --policy takes.
#include <fmt/format.h>

#include <string>

#include "neap/error.h"
#include "plan/validate.h"
#include "policy/adaptive.h"
#include "policy/policy.h"

namespace neap {
namespace {

struct Entry {
  std::string_view name;
  const Policy& (*get)();
};

constexpr Entry kPolicies[] = {
    {"store-all", store_all_policy},
    {"every-layer", every_layer_policy},
    {"sqrt", sqrt_policy},
    {"greedy", greedy_policy},
    {"dtr", dtr_policy},
    {"spill", spill_policy},
    {"bf16", bf16_policy},
    {"int8", int8_policy},
    {"int4", int4_policy},
};

q_learning::AgentOptions agent_options(const CheckpointingOptions& o) {
  q_learning::AgentOptions out{.every = o.every, .reward = q_learning::reward_named(o.reward)};
  if (o.weights) {
    out.reward.time = o.weights->time;
    out.reward.memory = o.weights->memory;
    out.reward.bandwidth = o.weights->bandwidth;
  }
  out.epsilon = o.epsilon;
  out.seed = o.seed;
  return out;
}

}  // namespace

std::shared_ptr<const Policy> make_policy(std::string_view name, const CheckpointingOptions& options, bool may_spill) {
  if (name == "adaptive") return std::make_shared<AdaptivePolicy>(agent_options(options), options.learnt, may_spill);
  if (name == "oracle") return joint_oracle_policy(may_spill);
  std::string names = "adaptive, oracle";
  for (const Entry& entry : kPolicies) {
    if (entry.name == name) return {std::shared_ptr<const Policy>(), &entry.get()};
    names += fmt::format(", {}", entry.name);
  }
  throw UserError(fmt::format("there is no policy '{}'; take one of: {}", name, names));
}

namespace {

Plan checked(Plan plan, const PlanningProblem& problem) {
  if (const auto error = validate(plan, problem.graph, problem.costs)) throw InternalError("plan: " + *error);
  return plan;
}

}  // namespace

std::optional<Plan> Policy::first(const PlanningProblem& problem, std::int64_t budget) const {
  return within(problem, budget);
}

std::vector<Plan> Policy::candidates(const PlanningProblem& problem, std::int64_t budget) const {
  std::vector<Plan> out;
  if (std::optional<Plan> plan = within(problem, budget)) out.push_back(std::move(*plan));
  return out;
}

std::vector<Plan> plans_within(const Policy& policy, const PlanningProblem& problem,
                               std::optional<std::int64_t> budget) {
  const Policy& asked = budget || policy.is_for_no_budget() ? policy : store_all_policy();
  std::vector<Plan> plans = asked.candidates(problem, budget.value_or(kNoBudget));
  if (plans.empty()) plans.push_back(policy.smallest(problem));
  for (Plan& plan : plans) plan = checked(std::move(plan), problem);
  return plans;
}

Plan plan_within(const Policy& policy, const PlanningProblem& problem, std::optional<std::int64_t> budget) {
  const Policy& asked = budget || policy.is_for_no_budget() ? policy : store_all_policy();
  std::optional<Plan> plan = asked.within(problem, budget.value_or(kNoBudget));
  return checked(plan ? std::move(*plan) : policy.smallest(problem), problem);
}

Plan first_plan(const Policy& policy, const PlanningProblem& problem, std::int64_t budget) {
  std::optional<Plan> plan = policy.first(problem, budget);
  return checked(plan ? std::move(*plan) : policy.smallest(problem), problem);
}

Plan or_proven(Plan plan, const Policy& policy, const PlanningProblem& problem, const Costs& proven_with,
               std::optional<std::int64_t> budget) {
  if (!budget || plan.peak_bytes <= *budget) return plan;
  const PlanningProblem as_proven{problem.graph, proven_with, problem.link, problem.layout, problem.levels};
  Plan least = policy.smallest(as_proven);
  return least.peak_bytes < plan.peak_bytes ? checked(std::move(least), problem) : std::move(plan);
}

}  // namespace neap
