#include "train/parts.h"

#include <fmt/format.h>

#include "core/bytes.h"
#include "neap/error.h"
#include "train/setup.h"

namespace neap {
namespace {

std::int64_t budget_of(const TrainOptions& options) {
  if (!options.budget_schedule.empty()) {
    throw UserError("--accumulate auto looks at one budget: give a number of parts beside --budget-schedule");
  }
  try {
    return parse_bytes(options.budget);
  } catch (const UserError&) {
    throw UserError(
        fmt::format("--accumulate auto: --budget '{}' must be bytes, as in 512MiB; a share is of one way to "
                    "compute the batch",
                    options.budget));
  }
}

std::int64_t least_bytes(const std::shared_ptr<const Model>& model, TrainOptions options, std::int64_t parts) {
  options.accumulate = parts;
  options.budget.clear();
  return make_setup(model, options).min_bytes;
}

}  // namespace

TrainOptions with_settled_parts(const std::shared_ptr<const Model>& model, TrainOptions options) {
  if (options.accumulate != 0) return options;
  options.accumulate = 1;
  if (options.budget.empty()) return options;
  const std::int64_t budget = budget_of(options);
  const std::int64_t batch = options.batch > 0 ? options.batch : model->batch();
  std::int64_t least = 0;
  for (std::int64_t parts = 1; parts <= batch; ++parts) {
    if (batch % parts != 0) continue;
    const std::int64_t bytes = least_bytes(model, options, parts);
    if (least != 0 && bytes >= least) continue;
    least = bytes;
    options.accumulate = parts;
    if (bytes <= budget) break;
  }
  return options;
}

}  // namespace neap
