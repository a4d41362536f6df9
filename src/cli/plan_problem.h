// `neap plan --problem FILE.json`: a schedule for an abstract problem.
#pragma once

#include <string>

namespace neap {

struct PlanProblemCall {
  std::string file;
  std::string policy;
  std::string budget;  // in place of the file's: bytes, or a share of the eager peak; empty: the file's
  std::string json;
  double time_limit = 5;  // seconds
};

int plan_problem(const PlanProblemCall& call);

}  // namespace neap
