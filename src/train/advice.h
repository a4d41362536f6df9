// What would make a step faster, in words.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "neap/train.h"
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

// Which batches would fit, and which lengths where there are sequences: by planning alone.
void advise_on_sizes(const std::shared_ptr<const Model>& model, const TrainOptions& options, std::int64_t budget,
                     std::vector<std::string>& out);

}  // namespace neap
