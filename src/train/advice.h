// What would make a step faster, in words.
#pragma once

#include <string>
#include <vector>

#include "policy/policy.h"

namespace neap {

struct AdviceProblem {
  const Policy& policy;
  const PlanningProblem& problem;
  const Plan& plan;  // that runs
  std::int64_t budget = 0;
  std::int64_t store_all_bytes = 0;
  double pace = 1;  // measured over simulated time
};

// What decisions cost now, and what some more bytes would bring; empty: everything is stored.
std::vector<std::string> advise_on_bytes(const AdviceProblem& a);

}  // namespace neap
