// Local search over what is kept, judged by the planner's own reckoning of bytes and time.
#pragma once

#include <cstdint>
#include <span>

#include "policy/layers.h"

namespace neap {

struct Candidate {
  Retention retention;
  Footprint footprint;
};

// Work is counted (in calls looked at, some tens of nanoseconds each), so that equal problems give equal plans.
class Search {
 public:
  Search(const Recompute& r, std::span<const Layer> layers, std::int64_t work);

  Candidate judge(Retention retention, std::int64_t budget);

  // Drops tensors, the most bytes for the least time first, until the budget holds or nothing helps.
  Candidate drop_until(Candidate from, std::int64_t budget);
  // Keeps again what can be kept within the budget, the most time first.
  Candidate keep_while(Candidate from, std::int64_t budget);

  std::int64_t work_left() const { return work_left_; }

 private:
  struct Move {
    Wait wait = 0;
    Position to = 0;
    double score = 0;
  };
  bool affords(std::size_t moves, const Retention& retention) const;
  std::vector<Move> drops(const Retention& retention) const;
  Position dropped_further(Wait wait, Position now) const;

  const Recompute& r_;
  std::vector<Position> layer_begins_;  // per wait: the first use in it of anything that the tensor's layer makes
  std::int64_t work_left_;
};

}  // namespace neap
