// Training anew on steps that were seen, and the test that a new network must pass before it replaces another.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "policy/lifetime/quantile_net.h"
#include "policy/lifetime/score.h"

namespace neap {

// A step as it was seen: what was known before it ran, and what came of it.
struct SeenStep {
  Sequence sequence;
  std::vector<Tick> lifespans;
};
using SeenSteps = std::vector<std::shared_ptr<const SeenStep>>;

struct Retraining {
  NetworkWeights weights;
  bool is_better = false;  // on the held-out steps: than what it would replace, and than the last value
  LifetimeScore candidate, active, last_value;
  std::int64_t arena_bytes = 0;  // while it ran
  double ms = 0;
};

// Every fourth step is held out. `active` empty: what would be replaced are the guesses without a network. A function
// of its arguments alone, unless `stop` becomes true.
Retraining retrain(const SeenSteps& steps, const NetworkWeights& active, const FitOptions& options,
                   const std::atomic<bool>* stop = nullptr);

LifetimeScore score_last_value(const SeenStep& step);

}  // namespace neap
