// The names that --policy takes.
#include <fmt/format.h>

#include <string>

#include "neap/error.h"
#include "plan/validate.h"
#include "policy/policy.h"

namespace neap {
namespace {

struct Entry {
  std::string_view name;
  const Policy& (*get)();
};

constexpr Entry kPolicies[] = {
    {"adaptive", oracle_policy},
    {"oracle", oracle_policy},
    {"store-all", store_all_policy},
    {"every-layer", every_layer_policy},
    {"sqrt", sqrt_policy},
    {"greedy", greedy_policy},
    {"dtr", dtr_policy},
    {"spill", spill_policy},
};

}  // namespace

const Policy& policy_named(std::string_view name) {
  std::string names;
  for (const Entry& entry : kPolicies) {
    if (entry.name == name) return entry.get();
    names += fmt::format("{}{}", names.empty() ? "" : ", ", entry.name);
  }
  throw UserError(fmt::format("there is no policy '{}'; take one of: {}", name, names));
}

Plan plan_within(const Policy& policy, const PlanningProblem& problem, std::optional<std::int64_t> budget) {
  std::optional<Plan> plan = budget ? policy.within(problem, *budget) : store_all_policy().within(problem, kNoBudget);
  if (!plan) plan = policy.smallest(problem);
  if (const auto error = validate(*plan, problem.graph, problem.costs)) throw InternalError("plan: " + *error);
  return std::move(*plan);
}

}  // namespace neap
