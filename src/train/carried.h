// The state that recurrent layers carry from batch to batch. It waits in the arena, as part of the state, in as few
// bits as the settings allow, is made anew before the next forward pass, and goes back no further than that: gradients
// end there.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "neap/train.h"
#include "precision/codec.h"
#include "train/stepper.h"

namespace neap {

// Gives every recurrent layer of `forward` that begins with zeros an input for its first state, and names its last one
// as a result. UserError when there is no such layer, or one that runs both ways.
void carry_states(Graph& forward);
// How it waits. UserError for a level that is not known or contradicts the tolerance.
precision::Level carried_level(const TrainOptions& options);
// State of its own for each of those inputs and each of `parts` that take turns: the room in which it waits.
void add_carried_rooms(Graph& graph, precision::Level level, std::int64_t parts);
// Inputs, results and rooms, in the order of the graph.
std::vector<CarriedTensors> carried_tensors(const Graph& graph);

class Carried {
 public:
  // UserError as above, and for what it cannot go together with.
  explicit Carried(const TrainOptions& options);

  // Before the part of a batch is run, `begins`: behind nothing.
  void write(Stepper& stepper, std::int64_t part, bool begins);
  // Behind it. What the level cannot hold is kept in bf16; the line for people says so, mostly it is empty.
  [[nodiscard]] std::string take(Stepper& stepper, std::int64_t part, std::uint64_t run);

  // With a level below fp32: a row each, of the last batch.
  std::vector<StoredTensorReport> rows() const;

 private:
  struct State {
    std::string name;
    precision::Level level = precision::Level::kFp32;
    double error = 0;  // of the last rounding: its mean square over the values'
  };
  void store(State& state, std::span<const float> values, std::uint64_t run, std::span<std::byte> room,
             std::string& trouble) const;

  precision::Level level_;
  std::uint64_t seed_;
  std::vector<std::vector<State>> parts_;  // made by the first batch
  // Of a tensor and of its room, where the host cannot use the arena; empty where it can.
  std::vector<std::byte> values_;
  std::vector<std::byte> room_;
};

}  // namespace neap
