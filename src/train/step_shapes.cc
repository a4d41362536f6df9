#include "train/step_shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "neap/error.h"
#include "train/data/sequences.h"

namespace neap {
namespace {

// The last that has begun.
std::int64_t count_at(std::span<const StepCount> counts, std::int64_t step, std::int64_t before) {
  for (const StepCount& each : counts) {
    if (each.step <= step) before = each.count;
  }
  return before;
}

}  // namespace

std::vector<StepCount> step_batches(const TrainOptions& options, std::int64_t batch) {
  std::vector<StepCount> out = parse_batch_schedule(options.batch_schedule);
  const std::int64_t first = options.batch > 0 ? options.batch : batch;
  if (out.empty() || out.front().step > 1) out.insert(out.begin(), {1, first});
  return out;
}

std::vector<StepShape> step_shapes(const TrainOptions& options, std::int64_t batch, std::int64_t longest) {
  const std::vector<StepCount> batches = step_batches(options, batch);
  const std::vector<StepCount> lengths = parse_length_schedule(options.length_schedule, longest);
  std::set<std::int64_t> steps;
  for (const StepCount& each : batches) steps.insert(each.step);
  for (const StepCount& each : lengths) steps.insert(each.step);
  std::vector<StepShape> out;
  for (const std::int64_t step : steps) {
    out.push_back({step, count_at(batches, step, batch), count_at(lengths, step, longest)});
  }
  return out;
}

std::vector<StepShape> all_shapes(std::span<const StepShape> shapes, const TrainOptions& options) {
  std::vector<StepShape> out;
  const auto add = [&](const StepShape& shape) {
    const bool is_known = std::any_of(out.begin(), out.end(), [&](const StepShape& each) {
      return each.batch == shape.batch && each.length == shape.length;
    });
    if (!is_known) out.push_back(shape);
  };
  for (const StepShape& shape : shapes) {
    add(shape);
    if (options.lengths != "varying") continue;
    for (std::int64_t length = kLengthStep; length < shape.length; length += kLengthStep) {
      add({shape.step, shape.batch, length});
    }
  }
  return out;
}

std::vector<StepShape> largest_shapes(std::span<const StepShape> shapes) {
  const auto covers = [](const StepShape& a, const StepShape& b) { return a.batch >= b.batch && a.length >= b.length; };
  std::vector<StepShape> out;
  for (const StepShape& shape : shapes) {
    if (std::any_of(out.begin(), out.end(), [&](const StepShape& each) { return covers(each, shape); })) continue;
    std::erase_if(out, [&](const StepShape& each) { return covers(shape, each); });
    out.push_back(shape);
  }
  return out;
}

const StepShape& shape_at(std::span<const StepShape> shapes, std::int64_t step) {
  require(!shapes.empty() && shapes.front().step <= step, "every step has a shape");
  std::size_t at = 0;
  while (at + 1 < shapes.size() && shapes[at + 1].step <= step) ++at;
  return shapes[at];
}

bool has_changing_shapes(const TrainOptions& options) {
  return options.lengths != "fixed" || !options.length_schedule.empty() || !options.batch_schedule.empty();
}

std::string text_of(const BatchShape& shape) {
  const std::string samples = fmt::format("{} sample{}", shape.batch, shape.batch == 1 ? "" : "s");
  return shape.length > 0 ? fmt::format("{} of length {}", samples, shape.length) : samples;
}

}  // namespace neap
