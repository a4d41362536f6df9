// Something to train: built in (neap/builtin_models.h), read from a file, or the application's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "neap/builder.h"

namespace neap {

// What a graph is built for.
struct BuildRequest {
  Mode mode = Mode::kTraining;
  std::int64_t batch = 0;                 // samples a step
  std::int64_t length = 0;                // time steps of a sequence; 0: the model's own
  std::int64_t image = 0;                 // side of an image; 0: the model's own
  std::optional<bool> frozen_batch_norm;  // not given: as the model says
  std::string loss;                       // "mse"; empty: the model's own
  bool padded = false;                    // sequences may end in padding: see Model::takes_padding
};

// The bytes of a parameter or buffer, in the layout that it has outside (see Given); valid until the next call. Empty
// when the graph has none of that name.
using WeightReader = std::function<std::span<const std::byte>(std::string_view name)>;

class Model {
 public:
  virtual ~Model() = default;

  // As reports and checkpoints call it. Two models of one name must build the same graph.
  virtual std::string name() const = 0;
  // Samples a step when none are asked for.
  virtual std::int64_t batch() const { return 32; }

  // Adds inputs (the first axis is the batch: request.batch or the symbol "batch"), layers, and the result "loss", a
  // scalar. Where there are classes, in evaluation, also the result "correct" (op correct_count). The state (parameters
  // and buffers) must have the same names and types in both modes. UserError when the request makes no sense.
  virtual void build(Builder& g, const BuildRequest& request) const = 0;

  // Integers of this input lie in [0, bound), floats of a target too. 0: unknown; made-up integers are then all 1.
  virtual std::int64_t bound(std::string_view input) const;

  // Sequences may end in padding (tokens 0, targets -100): what comes before does not see it, and the loss does not
  // count it. Training on varying lengths needs that.
  virtual bool takes_padding() const { return false; }

  // What a user should know before training: "exported for inference: ...". One line each.
  virtual std::vector<std::string> notes() const;

  // The model with other weights, as a file; `request`: what the graph was built for that has them. UserError when the
  // model has no such form (see save_onnx() in neap/onnx.h for one).
  virtual void save(const std::string& path, const BuildRequest& request, const WeightReader& weight) const;
};

// A built-in model with its parameters ("lstm-lm:hidden=1024") or a file (FILE.onnx). UserError names what is not
// known.
std::shared_ptr<const Model> open_model(const std::string& text);

}  // namespace neap
