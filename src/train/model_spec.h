// From a model to a graph that can be trained or evaluated.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "graph/graph.h"
#include "neap/model.h"
#include "neap/train.h"
#include "optimize/prune.h"
#include "train/variants.h"

namespace neap {

struct ModelSpec {
  std::shared_ptr<const Model> model;
  BuildRequest request;    // for training: one part of a batch, the first step's
  bool is_bf16 = false;    // products compute in bf16
  bool is_tf32 = false;    // products of f32 by a GPU's TF32
  std::int64_t parts = 1;  // of a batch
  std::int64_t split = 1;  // pieces of such a part that take turns within a step

  std::int64_t batch() const { return request.batch; }
};

// With the numbers that the options give.
ModelSpec make_spec(std::shared_ptr<const Model> model, const TrainOptions& options);

// Inputs that come with a batch; the others are named "step.".
bool is_data(const Tensor& tensor);

// Time steps of the sequences that the graph takes; 0: it takes none.
std::int64_t sequence_length(const Graph& graph);

// Forward, backward and updates, batch bound, verified.
Graph build_training(const ModelSpec& spec, const TrainOptions& options, const Variant& variant = {});

// Forward only, in evaluation mode, for `batch` samples.
Graph build_evaluation(const ModelSpec& spec, std::int64_t batch);

// The same with what is done to it; some of it is done once (optimize/once.h).
struct InferenceForm {
  std::string optimize = "off";  // as TrainOptions::optimize
  bool is_cuda = false;          // for a GPU
  std::optional<Pruning> pruning;
  bool first_fit = false;  // as Costs::first_fit
};
Graph build_inference(const ModelSpec& spec, std::int64_t batch, const InferenceForm& form);

}  // namespace neap
