// Feeds a graph's inputs from a data set.
#pragma once

#include <memory>
#include <vector>

#include "train/batch_source.h"
#include "train/data/loader.h"
#include "train/step_shapes.h"

namespace neap {

class Batches final : public BatchSource {
 public:
  Batches(std::shared_ptr<const Dataset> data, const TrainOptions& options, const ModelSpec& spec, const Graph& graph);

  void start(std::int64_t done) override;
  BatchInfo next() override;
  void write(Stepper& stepper) override;

 private:
  std::shared_ptr<const Dataset> data_;
  std::vector<StepShape> shapes_;
  std::uint64_t parts_;  // batches a step
  SamplerOptions sampling_;
  BatchOptions form_;
  Augment augment_;
  std::size_t loaders_;              // threads
  std::vector<std::size_t> fields_;  // one a data input, in the graph's order: what feeds it
  std::unique_ptr<Loader> loader_;
  const Loader::Batch* batch_ = nullptr;  // of the step that runs; the loader keeps it until the next is asked for
};

// The data of an inference; `samples`: of synthetic data (0: a few).
std::shared_ptr<const Dataset> open_inference_data(const TrainOptions& options, const ModelSpec& spec,
                                                   const Graph& graph, Split split, std::int64_t samples);

}  // namespace neap
