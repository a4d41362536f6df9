// The largest batch or length that a budget holds, found by planning alone.
#include "train/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>

#include "core/bytes.h"
#include "neap/error.h"
#include "train/budget.h"
#include "train/setup.h"

namespace neap {
namespace {

constexpr std::int64_t kMost = 1 << 20;

// The bytes that a size needs, or that it cannot be had at all.
struct Need {
  std::int64_t bytes = 0;
  std::string refusal;  // empty: there is a plan
};

// Bytes grow nearly in proportion, so the line through two known sizes points at the answer; where it misleads, halves.
class Bisection {
 public:
  Bisection(std::int64_t budget, std::int64_t most, std::function<Need(std::int64_t)> need)
      : budget_(budget), most_(most), need_(std::move(need)), high_(most + 1) {}

  // The largest size that fits; 0: not even 1 does.
  std::int64_t run(std::int64_t start) {
    for (std::int64_t size = std::clamp<std::int64_t>(start, 1, most_); low_ + 1 < high_; size = next()) {
      (fits(size) ? low_ : high_) = size;
    }
    return low_;
  }

  const Need& of(std::int64_t size) {
    const auto known = known_.find(size);
    return known != known_.end() ? known->second : known_.emplace(size, need_(size)).first->second;
  }

 private:
  bool fits(std::int64_t size) {
    const Need& n = of(size);
    return n.refusal.empty() && n.bytes <= budget_;
  }

  std::int64_t next() {
    ++rounds_;
    const std::int64_t middle = high_ > most_ ? low_ * 2 : low_ + (high_ - low_) / 2;
    std::int64_t guess = middle;
    const bool is_line = rounds_ % 3 != 0 && known_.size() > 1;  // every third time halves, whatever the line says
    if (is_line) guess = on_the_line().value_or(middle);
    return std::clamp(guess, low_ + 1, high_ - 1);
  }

  std::optional<std::int64_t> on_the_line() const {
    const std::pair<const std::int64_t, Need>* a = nullptr;
    const std::pair<const std::int64_t, Need>* b = nullptr;
    for (const auto& each : known_) {  // the two that are nearest to the budget
      if (!each.second.refusal.empty()) continue;
      const auto away = [&](const auto* p) { return std::abs(p->second.bytes - budget_); };
      if (a == nullptr || away(&each) < away(a)) {
        b = a;
        a = &each;
      } else if (b == nullptr || away(&each) < away(b)) {
        b = &each;
      }
    }
    if (b == nullptr || a->second.bytes == b->second.bytes) return std::nullopt;
    const double slope =
        static_cast<double>(a->second.bytes - b->second.bytes) / static_cast<double>(a->first - b->first);
    if (!(slope > 0)) return std::nullopt;
    const double guess = static_cast<double>(a->first) + static_cast<double>(budget_ - a->second.bytes) / slope;
    return static_cast<std::int64_t>(std::clamp(guess, 1.0, static_cast<double>(most_)));
  }

  std::int64_t budget_;
  std::int64_t most_;
  std::function<Need(std::int64_t)> need_;
  std::map<std::int64_t, Need> known_;
  std::int64_t low_ = 0;  // fits
  std::int64_t high_;     // does not
  int rounds_ = 0;
};

// A plan within the budget is not wanted, only what the least one needs.
TrainOptions without_budget(TrainOptions options) {
  options.budget.clear();
  options.budget_schedule.clear();
  return options;
}

// Batches that have parts grow by one sample a part.
std::int64_t unit_of(const TrainOptions& options, const std::string& what) {
  return what == "batch" ? options.accumulate * options.split : 1;
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
  const std::int64_t other = std::max<std::int64_t>(1, longest / 2);
  return make_setup(model, without_budget(with(options, "length", other))).longest == other;
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

// --split auto: twice as many parts as long as that brings more. Graphs grow with the parts, and planning with them.
Found find_split(const std::shared_ptr<const Model>& model, TrainOptions options, const std::string& what,
                 std::int64_t budget, std::int64_t start) {
  constexpr std::int64_t kMostParts = 64;
  options.split = 1;
  Found best = find(model, options, what, budget, start);
  while (options.split < kMostParts) {
    options.split *= 2;
    try {
      Found next = find(model, options, what, budget, std::max(best.largest(what), unit_of(options, what)));
      if (next.largest(what) <= best.largest(what)) break;
      best = std::move(next);
    } catch (const UserError&) {  // a batch that cannot be cut so, or a model that cannot
      break;
    }
  }
  return best;
}

FitReport report_on(const std::shared_ptr<const Model>& model, Found& found, const std::string& what,
                    std::int64_t budget) {
  const auto& [options, search, most] = found;
  FitReport out{.what = what, .budget_bytes = budget, .largest = found.largest(what), .split = options.split};
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
  Found found = is_auto ? find_split(model, options, what, budget, start) : find(model, options, what, budget, start);
  FitReport out = report_on(model, found, what, budget);
  TrainOptions stored = options;
  stored.policy = "store-all";
  if (is_auto) stored.split = 1;
  out.store_all_largest = find(model, stored, what, budget, out.largest / 2).largest(what);
  return out;
}

}  // namespace neap
