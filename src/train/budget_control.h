// The budget of a run, which may change between steps: by a schedule, or because somebody asks.
#pragma once

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "train/budget.h"
#include "train/step_list.h"

namespace neap {

class BudgetControl {
 public:
  // `first` holds until something else is asked for; none of them goes above `most` (of a reservation; none: no limit).
  // UserError when the schedule makes no sense.
  BudgetControl(const BudgetBase& base, std::optional<std::int64_t> first, std::optional<std::int64_t> most,
                const std::string& schedule);

  // Something besides steps needs so much.
  void raise_minimum(std::int64_t bytes) { base_.min_bytes = std::max(base_.min_bytes, bytes); }
  std::int64_t minimum() const { return base_.min_bytes; }

  // From the next step on; for any thread. UserError when malformed. Returns what will hold.
  std::int64_t ask(std::string_view text);

  // Before each step (1 is the first): whether the budget has changed.
  bool advance(std::int64_t step);

  // There is not more than this, for now: what was asked for is cut to it.
  void hold_at(std::int64_t bytes) { asked_ = std::min(asked_.value_or(bytes), bytes); }

  std::optional<std::int64_t> asked() const { return asked_; }
  // Never below the minimum, at which a run goes on when less is asked for.
  std::optional<std::int64_t> effective() const;
  // The largest under which steps were run, or the first is to be; none: some had no budget.
  std::optional<std::int64_t> largest() const;
  // The budgets that the schedule has still to come behind this step.
  std::vector<std::int64_t> coming(std::int64_t step) const;

 private:
  struct Change {
    std::int64_t step = 0;
    std::int64_t bytes = 0;
  };
  std::int64_t bytes_of(std::string_view text) const;
  std::int64_t most_held() const;

  BudgetBase base_;
  std::optional<std::int64_t> most_;
  std::vector<Change> schedule_;
  std::size_t next_ = 0;  // of the schedule
  std::optional<std::int64_t> asked_;
  bool has_begun_ = false;      // asked_ is that of a step
  std::int64_t most_held_ = 0;  // under steps before that one; kNoBudget: one had none
  std::mutex mutex_;
  std::optional<std::int64_t> request_;
  std::atomic<bool> has_request_ = false;
};

}  // namespace neap
