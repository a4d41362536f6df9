// A run and all that it said, for tests.
#pragma once

#include <vector>

#include "neap/train.h"

namespace neap::testing {

struct Record {
  std::vector<StepReport> steps;
  Summary summary;
};

inline Record run(const TrainOptions& options) {
  Trainer trainer(options);
  Record out;
  while (trainer.step() < options.steps) out.steps.push_back(trainer.advance());
  out.summary = trainer.summary();
  return out;
}

}  // namespace neap::testing
