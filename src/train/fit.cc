// The largest batch or length that a budget holds, found by planning alone.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>

#include "core/bytes.h"
#include "neap/error.h"
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
  Bisection(std::int64_t budget, std::function<Need(std::int64_t)> need) : budget_(budget), need_(std::move(need)) {}

  // The largest size that fits; 0: not even 1 does.
  std::int64_t run(std::int64_t start) {
    for (std::int64_t size = std::clamp<std::int64_t>(start, 1, kMost); low_ + 1 < high_; size = next()) {
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
    const std::int64_t middle = high_ > kMost ? low_ * 2 : low_ + (high_ - low_) / 2;
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
    return static_cast<std::int64_t>(std::clamp(guess, 1.0, static_cast<double>(kMost)));
  }

  std::int64_t budget_;
  std::function<Need(std::int64_t)> need_;
  std::map<std::int64_t, Need> known_;
  std::int64_t low_ = 0;           // fits
  std::int64_t high_ = kMost + 1;  // does not
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

std::int64_t bytes_of(const TrainOptions& options) {
  try {
    return parse_bytes(options.budget);
  } catch (const UserError&) {
    throw UserError(fmt::format("--budget '{}': write bytes, as in 4GiB; a share is of one batch", options.budget));
  }
}

Bisection search_for(const std::shared_ptr<const Model>& model, const TrainOptions& options, const std::string& what,
                     std::int64_t budget) {
  return {budget, [=](std::int64_t size) -> Need {
            try {
              const Setup setup = make_setup(model, without_budget(with(options, what, size)));
              return {.bytes = setup.min_bytes, .refusal = {}};
            } catch (const UserError& e) {  // longer than the model's context, say
              if (size == 1) throw;
              return {.bytes = 0, .refusal = e.what()};
            }
          }};
}

}  // namespace

FitReport fit_training(const std::shared_ptr<const Model>& model, const TrainOptions& options,
                       const std::string& what) {
  if (what != "batch" && what != "length") throw UserError(fmt::format("--find '{}': take batch or length", what));
  if (options.accumulate == 0) throw UserError("--accumulate auto: say in how many parts the batch is computed");
  if (options.split == 0) throw UserError("--split auto: say how many parts of the batch take turns");
  const std::int64_t budget = bytes_of(options);
  const Setup base = make_setup(model, without_budget(options));
  if (what == "length" && base.shape.length == 0) {
    throw UserError(fmt::format("model '{}' takes no sequences; look for a batch", model->name()));
  }
  FitReport out{.what = what, .budget_bytes = budget};
  Bisection search = search_for(model, options, what, budget);
  const std::int64_t unit = unit_of(options, what);
  const std::int64_t start = what == "batch" ? base.shape.batch * options.accumulate / unit : base.shape.length;
  const std::int64_t most = search.run(start);
  out.largest = most * unit;
  if (most == 0) {
    const PlanReport least = plan_training(model, with(options, what, 1));
    throw DoesNotFit(fmt::format("not even a {} of {} fits into {}: it needs {}, {}", what, unit, human_bytes(budget),
                                 human_bytes(least.min_budget_bytes), explain_peak(least)));
  }
  out.min_budget_bytes = search.of(most).bytes;
  const PlanReport fits = plan_training(model, with(options, what, most));
  out.predicted_step_ms = fits.predicted_step_ms;
  if (most == kMost) {
    out.limit = "nothing: the search ends here";
  } else if (const Need& next = search.of(most + 1); next.refusal.empty()) {
    out.next_bytes = next.bytes;
    out.limit = explain_peak(plan_training(model, with(options, what, most + 1)));
  } else {
    out.limit = next.refusal;
  }
  TrainOptions stored = options;
  stored.policy = "store-all";
  out.store_all_largest = search_for(model, stored, what, budget).run(std::max<std::int64_t>(1, most / 2)) * unit;
  return out;
}

}  // namespace neap
