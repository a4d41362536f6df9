// The largest batch or length that a budget holds, found by planning alone.
#include "train/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <vector>

#include "core/bytes.h"
#include "neap/error.h"
#include "train/bisection.h"
#include "train/budget.h"
#include "train/data/sequences.h"
#include "train/parts.h"
#include "train/setup.h"

namespace neap {
namespace {

constexpr std::int64_t kMost = 1 << 20;

// A plan within the budget is not wanted, only what the least one needs.
TrainOptions without_budget(TrainOptions options) {
  options.budget.clear();
  options.budget_schedule.clear();
  return options;
}

// Batches that have parts grow by one sample a part. Varying lengths are padded to buckets: a length between two of
// them makes a shape of its own, which may need more than the next bucket does.
std::int64_t unit_of(const TrainOptions& options, const std::string& what) {
  if (what == "batch") return options.accumulate * options.split;
  return options.lengths == "varying" ? kLengthStep : 1;
}

TrainOptions with(TrainOptions options, const std::string& what, std::int64_t units) {
  (what == "batch" ? options.batch : options.length) = units * unit_of(options, what);
  return options;
}

Bisection search_for(const std::shared_ptr<const Model>& model, const TrainOptions& options, const std::string& what,
                     std::int64_t budget, std::int64_t most) {
  return {budget, most, [=](std::int64_t size) -> Need {
            try {
              const Setup setup = make_setup(model, without_budget(with(options, what, size)));
              return {.bytes = setup.min_bytes, .refusal = {}};
            } catch (const UserError& e) {  // longer than the model's context, say
              if (size == 1) throw;
              return {.bytes = 0, .refusal = e.what()};
            }
          }};
}

// Some models have one length, whatever is asked for.
bool has_any_length(const std::shared_ptr<const Model>& model, const TrainOptions& options, std::int64_t longest) {
  TrainOptions shorter = without_budget(options);
  shorter.length = std::max<std::int64_t>(1, longest / 2);
  shorter.lengths = "fixed";
  return make_setup(model, shorter).longest == shorter.length;
}

// A number of parts that take turns, and the most that fits with it.
struct Found {
  TrainOptions options;
  Bisection search;
  std::int64_t most = 0;  // units

  std::int64_t largest(const std::string& what) const { return most * unit_of(options, what); }
};

Found find(const std::shared_ptr<const Model>& model, const TrainOptions& options, const std::string& what,
           std::int64_t budget, std::int64_t start, std::int64_t most = kMost) {
  Found out{.options = options, .search = search_for(model, options, what, budget, most)};
  out.most = out.search.run(start / unit_of(options, what));
  return out;
}

// --split auto: of all numbers of parts the one with which the most fits. Graphs grow with the parts, and planning with
// them: a number is asked first whether it brings one size more than the best so far, and not even that where a part of
// as many samples did not fit beside fewer others.
class SplitSearch {
 public:
  SplitSearch(const std::shared_ptr<const Model>& model, TrainOptions options, const std::string& what,
              std::int64_t budget, std::int64_t start)
      : model_(model), options_(std::move(options)), what_(what), budget_(budget), best_(whole(start)) {}

  Found run() {
    what_ == "batch" ? find_batch() : find_length();
    return std::move(best_);
  }

 private:
  static constexpr std::int64_t kMostParts = 64;

  struct Failure {
    std::int64_t parts = 0;
    std::int64_t samples = 0;  // of a part
  };

  Found whole(std::int64_t start) {
    options_.split = 1;
    Found out = find(model_, options_, what_, budget_, start);
    note_failure(out);
    return out;
  }

  // Powers of two come close; between them are numbers that waste less of a batch that is not their multiple.
  void find_batch() {
    bool was_close = true;
    std::vector<std::int64_t> close;  // beginnings of such ranges
    for (std::int64_t parts = 2; parts <= kMostParts; parts *= 2) {
      const bool is_close = try_parts(parts);
      if (was_close || is_close) close.push_back(parts / 2);
      was_close = is_close;
    }
    for (const std::int64_t parts : close) try_between(parts, 2 * parts);
  }

  // The batch is given, and parts divide it.
  void find_length() {
    const std::int64_t batch = batch_to_split(model_, options_);
    for (std::int64_t parts = 2; parts <= std::min(batch, kMostParts); ++parts) {
      if (batch % parts == 0) try_parts(parts);
    }
  }

  // The middle first: where it fails, most on one side of it need not be asked.
  void try_between(std::int64_t low, std::int64_t high) {
    const std::int64_t parts = low + (high - low) / 2;
    if (parts == low) return;
    try_parts(parts);
    try_between(low, parts);
    try_between(parts, high);
  }

  // True: this is the best, or so close to it that a number nearby may be.
  bool try_parts(std::int64_t parts) {
    options_.split = parts;
    const std::int64_t wanted = best_.largest(what_) / unit_of(options_, what_) + 1;
    if (best_.most == kMost || is_hopeless(parts, wanted)) return false;
    Found next{.options = options_, .search = search_for(model_, options_, what_, budget_, kMost)};
    try {
      next.most = next.search.run(wanted, wanted - 1);
    } catch (const UserError&) {  // a model that cannot be cut so
      return false;
    }
    note_failure(next);
    const bool is_best = next.most >= wanted;
    const bool is_close = is_best || next.search.of(wanted).bytes <= budget_ + budget_ / wanted;
    if (is_best) best_ = std::move(next);
    return is_close;
  }

  // For want of bytes, not for another reason.
  void note_failure(Found& found) {
    if (found.most == kMost || !found.search.of(found.most + 1).refusal.empty()) return;
    failures_.push_back({found.options.split, found.most + 1});
  }

  // What is kept for backward is at least as much with more parts of as many samples.
  bool is_hopeless(std::int64_t parts, std::int64_t samples) const {
    if (what_ != "batch") return false;
    const auto covers = [&](const Failure& f) { return f.parts <= parts && f.samples <= samples; };
    return std::ranges::any_of(failures_, covers) || is_fine(parts, samples);
  }

  // Beside powers of two, what can be gained is less than one sample in so many.
  static bool is_fine(std::int64_t parts, std::int64_t samples) {
    constexpr std::int64_t kMany = 32;
    return samples > kMany && !std::has_single_bit(static_cast<std::uint64_t>(parts));
  }

  std::shared_ptr<const Model> model_;
  TrainOptions options_;
  std::string what_;
  std::int64_t budget_;
  std::vector<Failure> failures_;
  Found best_;
};

FitReport report_on(const std::shared_ptr<const Model>& model, Found& found, const std::string& what,
                    std::int64_t budget) {
  const auto& [options, search, most] = found;
  FitReport out{.what = what,
                .budget_bytes = budget,
                .largest = found.largest(what),
                .step = unit_of(options, what),
                .split = options.split};
  if (most == 0) {
    const PlanReport least = plan_training(model, with(options, what, 1));
    throw DoesNotFit(fmt::format("not even a {} of {} fits into {}: it needs {}, {}", what, unit_of(options, what),
                                 human_bytes(budget), human_bytes(least.min_budget_bytes), explain_peak(least)));
  }
  out.min_budget_bytes = found.search.of(most).bytes;
  const PlanReport plan = plan_training(model, with(options, what, most));
  out.predicted_step_ms = plan.predicted_step_ms;
  out.outside_bytes = plan.outside_bytes;
  if (most == kMost) {
    out.limit = "nothing: the search ends here";
  } else if (const Need& next = found.search.of(most + 1); next.refusal.empty()) {
    out.next_bytes = next.bytes;
    out.limit = explain_peak(plan_training(model, with(options, what, most + 1)));
  } else {
    out.limit = next.refusal;
  }
  return out;
}

}  // namespace

std::optional<FittingSizes> fitting_sizes(const std::shared_ptr<const Model>& model, const TrainOptions& given,
                                          const std::string& what, std::int64_t budget) {
  const bool is_batch = what == "batch";
  TrainOptions options = given;
  options.batch_schedule.clear();
  if (!is_batch) options.length_schedule.clear();  // of lengths up to the present one
  if (options.lengths != "fixed" && options.length_schedule.empty()) options.lengths = "fixed";  // the longest decides
  const Setup base = make_setup(model, without_budget(options));
  const std::int64_t start = is_batch ? base.shape.batch * base.spec.parts : base.shape.length;
  if (start == 0 || (!is_batch && !has_any_length(model, options, start))) return std::nullopt;
  // Where chunks of a sequence are nodes, planning takes longer with the length: it is not followed far.
  constexpr std::int64_t kFar = 2;
  const std::int64_t most = is_batch ? kMost : kFar * start;
  FittingSizes out{.largest = find(model, options, what, budget, start, most).largest(what)};
  out.is_all = !is_batch && out.largest == most;
  if (out.largest == 0) return out;
  TrainOptions stored = options;
  stored.policy = "store-all";
  out.store_all_largest = find(model, stored, what, budget, out.largest / 2, most).largest(what);
  return out;
}

FitReport fit_training(const std::shared_ptr<const Model>& model, const TrainOptions& options,
                       const std::string& what) {
  if (what != "batch" && what != "length") throw UserError(fmt::format("--find '{}': take batch or length", what));
  if (what == "batch" && !options.batch_schedule.empty()) {
    throw UserError("fit looks for one batch; leave --batch-schedule out");
  }
  if (options.accumulate == 0) throw UserError("--accumulate auto: say in how many parts the batch is computed");
  const bool is_auto = options.split == 0;
  const std::int64_t budget = budget_in_bytes(options.budget, "fit");
  TrainOptions whole = without_budget(options);  // in one part, whatever its size
  whole.split = whole.accumulate = 1;
  const Setup base = make_setup(model, whole);
  if (what == "length" && base.shape.length == 0) {
    throw UserError(fmt::format("model '{}' takes no sequences; look for a batch", model->name()));
  }
  if (what == "length" && !has_any_length(model, whole, base.shape.length)) {
    throw UserError(
        fmt::format("model '{}' takes sequences of {} only; look for a batch", model->name(), base.shape.length));
  }
  const std::int64_t start = what == "batch" ? base.shape.batch : base.shape.length;
  Found found =
      is_auto ? SplitSearch(model, options, what, budget, start).run() : find(model, options, what, budget, start);
  FitReport out = report_on(model, found, what, budget);
  TrainOptions stored = options;
  stored.policy = "store-all";
  if (is_auto) stored.split = 1;
  out.store_all_largest = find(model, stored, what, budget, out.largest / 2).largest(what);
  return out;
}

}  // namespace neap
