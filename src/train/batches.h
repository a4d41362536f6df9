// Feeds a graph's inputs from a data set.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "graph/graph.h"
#include "neap/train.h"
#include "train/data/dataset.h"
#include "train/data/loader.h"
#include "train/model_spec.h"

namespace neap {

// The data to train on, in the shapes that the model's inputs have. UserError when they do not fit each other.
std::shared_ptr<const Dataset> open_training(const TrainOptions& options, const ModelSpec& spec, const Graph& graph);
// What --eval or --validation asks for; null: nothing.
std::shared_ptr<const Dataset> open_evaluation(const TrainOptions& options, const ModelSpec& spec, const Graph& graph);

class Batches {
 public:
  Batches(const TrainOptions& options, const ModelSpec& spec, const Graph& graph);

  // Begins to load, from the batch that step `done` + 1 gets.
  void start(std::int64_t done);
  // Hands every input of the next batch to `write`.
  void next(const std::function<void(TensorId, const std::byte*)>& write);

 private:
  std::shared_ptr<const Dataset> data_;
  SamplerOptions sampling_;
  Augment augment_;
  std::vector<std::pair<TensorId, std::size_t>> inputs_;  // with the index of the field that feeds it
  std::unique_ptr<Loader> loader_;
};

}  // namespace neap
