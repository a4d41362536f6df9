// Weights of inference that wait outside of the arena, where a budget does not hold them all.
#pragma once

#include "device/device.h"
#include "neap/train.h"
#include "policy/weights.h"
#include "runtime/prepare.h"

namespace neap {

class OutsideWeights {
 public:
  // All of them outlive it.
  OutsideWeights(const Program& program, const TrainOptions& options, const Device& device);

  Plan smallest() const;
  // A valid one, for a budget that is no smaller than that one's. How fast weights come in is tried out before.
  WeightPlan plan_for(std::int64_t budget) const;

 private:
  const Program& program_;
  const TrainOptions& options_;
  const Device& device_;
  Costs costs_;  // guessed
};

}  // namespace neap
