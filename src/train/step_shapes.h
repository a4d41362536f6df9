// What the batches of a run are like from which step on: how many samples, how long.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "neap/train.h"
#include "train/step_list.h"
#include "train/stepper.h"

namespace neap {

// From this step on, until the next.
struct StepShape {
  std::int64_t step = 1;
  std::int64_t batch = 0;   // samples a step, all parts together
  std::int64_t length = 0;  // time steps of its sequences at most; 0: there are none
};

// The batches of a run whose model's own is `batch`; the first begins with step 1. UserError as the parser says.
std::vector<StepCount> step_batches(const TrainOptions& options, std::int64_t batch);

// Both schedules together; the first begins with step 1. `longest`: time steps of the model's sequences; 0: it takes
// none.
std::vector<StepShape> step_shapes(const TrainOptions& options, std::int64_t batch, std::int64_t longest);

// All that batches can be like, and since when: with varying lengths also what is shorter.
std::vector<StepShape> all_shapes(std::span<const StepShape> shapes, const TrainOptions& options);

// Those that no other is larger than, in samples and in length.
std::vector<StepShape> largest_shapes(std::span<const StepShape> shapes);

// The one that holds at a step, from 1 on.
const StepShape& shape_at(std::span<const StepShape> shapes, std::int64_t step);

// Batches of several shapes may come.
bool has_changing_shapes(const TrainOptions& options);

// "8 samples", "8 samples of length 64": for messages.
std::string text_of(const BatchShape& shape);

}  // namespace neap
