// The least time of small problems, by search over all states (which ops have run, which tensors are resident).
#pragma once

#include <optional>
#include <vector>

#include "remat/problem.h"

namespace neap::remat {

struct ExactResult {
  std::vector<OpIndex> runs;  // the best of those whose first runs keep program order
  bool is_optimal = false;    // none is faster, in whatever order
};

// None: too large, or nothing fits.
std::optional<ExactResult> exact_runs(const Problem& problem);

}  // namespace neap::remat
