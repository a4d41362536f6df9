// Inference: a model's forward pass over a data set, planned and run like training, below the same kind of budget.
#pragma once

#include "neap/train.h"

namespace neap {

struct InferOptions {
  std::string split;         // train, test; empty: test where the data set has such a part of its own, else all of it
  std::int64_t samples = 0;  // at most so many; 0: all of them
};

struct InferReport {
  std::string model;
  std::string weights;  // where they come from: a file, or "initial"
  EvalReport result;
  std::int64_t batch = 0;
  double median_batch_ms = 0;
  double samples_per_second = 0;
  std::optional<std::int64_t> budget_bytes;
  std::int64_t peak_bytes = 0;
  std::int64_t state_bytes = 0;
  std::int64_t min_budget_bytes = 0;
  // With a budget that does not hold the weights, and a place outside (TrainOptions::host_ram, ::spill_dir):
  std::int64_t outside_bytes = 0;  // weights that wait there
  std::int64_t fetched_bytes = 0;  // that come in for a batch
  double stalled_ms = 0;           // that the calls of a batch wait for them
  std::int64_t replays = 0;        // of batches whose weights did not come in
  std::string numerics_id;
};

// Weights are those of TrainOptions::checkpoint (a folder) or ::init (a file), else the model's own. UserError: the
// options are wrong; DoesNotFit: the budget is below the minimum.
InferReport infer(std::shared_ptr<const Model> model, const TrainOptions& options, const InferOptions& inference);

}  // namespace neap
