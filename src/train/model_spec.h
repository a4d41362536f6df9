// From a model's name on the command line to a graph that can be trained or evaluated.
#pragma once

#include <string>

#include "graph/graph.h"
#include "neap/model.h"
#include "neap/train.h"

namespace neap {

struct ModelSpec {
  const ModelInfo* info = nullptr;
  ModelContext context;
  std::int64_t batch = 0;
};

// "lstm-lm:hidden=1024,vocab=10000" with the numbers that --length, --image and --batch give. UserError names what is
// not known.
ModelSpec resolve_model(const TrainOptions& options);

// The forward graph with symbols for batch only.
Graph build_forward(const ModelSpec& spec, Mode mode, bool frozen_batch_norm);

// Forward, backward and updates, batch bound, verified.
Graph build_training(const ModelSpec& spec, const TrainOptions& options);

// Forward only, in evaluation mode, for `batch` samples.
Graph build_evaluation(const ModelSpec& spec, std::int64_t batch);

}  // namespace neap
