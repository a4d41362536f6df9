// The state that recurrent layers carry from batch to batch. It waits outside of the arena, in as few bits as the
// settings allow, is made anew before the next forward pass, and goes back no further than that: gradients end there.
#pragma once

#include <string>
#include <vector>

#include "neap/train.h"
#include "precision/codec.h"
#include "train/safetensors.h"
#include "train/stepper.h"

namespace neap {

// Gives every recurrent layer of `forward` that begins with zeros an input for its first state, and names its last one
// as a result. UserError when there is no such layer, or one that runs both ways.
void carry_states(Graph& forward);
// Those inputs and results, in the order of the graph.
std::vector<CarriedTensors> carried_tensors(const Graph& graph);

class Carried {
 public:
  // UserError for a level that is not known or contradicts the tolerance.
  explicit Carried(const TrainOptions& options);

  // Before the part of a batch is run, `begins`: behind nothing.
  void write(Stepper& stepper, std::int64_t part, bool begins);
  // Behind it. What the level cannot hold is kept exactly; the line for people says so, mostly it is empty.
  [[nodiscard]] std::string take(const Stepper& stepper, std::int64_t part, std::uint64_t run);

  // With a level below fp32: a row each, of the last batch.
  std::vector<StoredTensorReport> rows() const;

  // For checkpoints: the values as the next batch will see them, and back. UserError names a tensor that is missing.
  struct Saved {
    std::vector<std::vector<float>> values;
    std::vector<SafeTensor> tensors;  // of them
  };
  Saved saved() const;
  void restore(const SafeTensorsFile& file, const std::string& path, const Stepper& stepper);

 private:
  struct State {
    std::string name;
    std::int64_t elements = 0;
    precision::Level level = precision::Level::kFp32;
    std::vector<std::byte> bytes;
    double error = 0;  // of the last rounding: its mean square over the values'
  };
  State& state(const Stepper& stepper, std::int64_t part, std::size_t index);
  void store(State& state, std::uint64_t run, std::string& trouble);

  precision::Level level_;
  std::uint64_t seed_;
  std::vector<std::vector<State>> parts_;  // made by the first batch
  std::vector<float> values_;              // of one state
  std::vector<float> again_;               // the same, as it will be read
};

}  // namespace neap
