#include "train/parts.h"

#include <fmt/format.h>

#include <numeric>

#include "neap/error.h"
#include "train/budget.h"
#include "train/setup.h"
#include "train/step_shapes.h"

namespace neap {
namespace {

std::int64_t budget_of(const TrainOptions& options, std::string_view flag) {
  if (!options.budget_schedule.empty()) {
    throw UserError(fmt::format("{} auto looks at one budget: give a number of parts beside --budget-schedule", flag));
  }
  return budget_in_bytes(options.budget, fmt::format("{} auto", flag));
}

// Of which all batches of the run are multiples.
std::int64_t common_batch(const std::shared_ptr<const Model>& model, const TrainOptions& options) {
  std::int64_t out = 0;
  for (const StepCount& each : step_batches(options, model->batch())) out = std::gcd(out, each.count);
  return out;
}

std::int64_t least_bytes(const std::shared_ptr<const Model>& model, TrainOptions options) {
  options.budget.clear();
  return make_setup(model, options).min_bytes;
}

using Field = std::int64_t TrainOptions::*;

// The fewest parts of which the least plan fits; `field` says which of the two ways to cut a batch.
TrainOptions settled(const std::shared_ptr<const Model>& model, TrainOptions options, Field field,
                     std::string_view flag) {
  options.*field = 1;
  if (options.budget.empty()) return options;
  const std::int64_t budget = budget_of(options, flag);
  const std::int64_t batch =
      field == &TrainOptions::split ? batch_to_split(model, options) : common_batch(model, options);
  TrainOptions each = options;
  std::int64_t least = 0;
  for (std::int64_t parts = 1; parts <= batch; ++parts) {
    if (batch % parts != 0) continue;
    each.*field = parts;
    const std::int64_t bytes = least_bytes(model, each);
    if (least != 0 && bytes >= least) continue;
    least = bytes;
    options.*field = parts;
    if (bytes <= budget) break;
  }
  return options;
}

}  // namespace

std::int64_t batch_to_split(const std::shared_ptr<const Model>& model, const TrainOptions& options) {
  return common_batch(model, options) / options.accumulate;
}

TrainOptions with_settled_parts(const std::shared_ptr<const Model>& model, TrainOptions options) {
  if (options.accumulate == 0 && options.split == 0) {
    throw UserError("--accumulate auto and --split auto: leave one of them to the budget, give the other a number");
  }
  if (options.accumulate == 0) return settled(model, options, &TrainOptions::accumulate, "--accumulate");
  if (options.split == 0) return settled(model, options, &TrainOptions::split, "--split");
  return options;
}

}  // namespace neap
