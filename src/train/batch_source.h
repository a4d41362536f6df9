// Where a step's data come from.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "neap/train.h"
#include "train/data/dataset.h"
#include "train/model_spec.h"
#include "train/stepper.h"

namespace neap {

struct BatchInfo {
  std::int64_t samples = 0;
  std::int64_t length = 0;  // time steps of its sequences, padding included; 0: the model's own
  std::int64_t tokens = 0;  // that the loss counts; 0: unknown
  bool begins = false;      // nothing comes before it: an epoch's first
};

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // Called once, before the first batch: that of step `done` + 1. A step takes as many as the options say.
  virtual void start(std::int64_t done) = 0;
  // Goes on to the next batch.
  virtual BatchInfo next() = 0;
  // Writes every data input of this batch; once more for a step that must be run again.
  virtual void write(Stepper& stepper) = 0;
  // The same batch may be written as often as one likes.
  virtual bool can_write_again() const { return true; }
};

struct DataSources {
  std::unique_ptr<BatchSource> training;
  std::shared_ptr<const Dataset> evaluation;  // null: none
};

// A way to open them once the graph is known. UserError when data and model do not fit each other.
using OpenData = std::function<DataSources(const TrainOptions&, const ModelSpec&, const Graph&)>;

// What the options name; starts a thread that loads ahead.
DataSources open_named_data(const TrainOptions& options, const ModelSpec& spec, const Graph& graph);
// What the application gives; allocates nothing in a step.
OpenData fed_by(Feed feed);

}  // namespace neap
