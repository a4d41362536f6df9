// The fastest plan that Neap knows: the chain's dynamic program, then local search tensor by tensor, all of it judged
// by the plan itself.
#pragma once

#include <optional>

#include "policy/abstract.h"
#include "policy/layers.h"
#include "policy/search.h"
#include "remat/walk.h"

namespace neap {

// Work that it may do, about a microsecond each: equal problems give equal plans, whatever the machine does.
struct OracleEffort {
  std::int64_t search = 0;  // of the local search
  std::int64_t starts = 0;  // of judging what the chain's program offers
};

class OracleSearch {
 public:
  OracleSearch(const PlanningProblem& problem, const OracleEffort& effort);

  const Recompute& recompute() const { return r_; }
  const std::vector<Layer>& layers() const { return layers_; }

  // By the unpacked footprint; none: nothing found within the budget.
  std::optional<Candidate> fastest(std::int64_t budget);
  Candidate smallest();
  // The one that keeps everything, in its lossless form.
  const Candidate& kept() const { return starts_.back(); }

 private:
  void judge_starts(std::int64_t work);
  // Those of the chain between the last judged one that fits and the next.
  void judge_between(std::int64_t budget, std::vector<Candidate>& found);
  // Walks through the program that evict when they must, as much as the budget asks for.
  std::vector<Candidate> walks(std::int64_t budget);
  void solve_abstract(std::int64_t abstract_budget, std::int64_t budget, std::vector<Candidate>& out);

  Recompute r_;
  std::vector<Layer> layers_;
  Search search_;
  AbstractProgram abstract_;
  remat::Uses uses_;
  std::vector<Retention> chain_;   // from the least bytes to the most
  std::vector<Candidate> starts_;  // some of the chain, and store-all
  std::size_t stride_ = 1;         // every so many of the chain were judged
};

}  // namespace neap
