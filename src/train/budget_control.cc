#include "train/budget_control.h"

#include <fmt/format.h>

#include <algorithm>

#include "neap/error.h"
#include "plan/plan.h"

namespace neap {

BudgetControl::BudgetControl(const BudgetBase& base, std::optional<std::int64_t> first,
                             std::optional<std::int64_t> most, const std::string& schedule)
    : base_(base), most_(most), asked_(first) {
  for (const StepValue& part : parse_step_list(schedule, "--budget-schedule")) {
    try {
      schedule_.push_back({part.step, bytes_of(part.value)});
    } catch (const UserError& e) {
      throw UserError(
          fmt::format("--budget-schedule '{}:{}': write bytes, 512MiB, 50%, min or min+10%", part.step, part.value));
    }
  }
}

std::int64_t BudgetControl::bytes_of(std::string_view text) const {
  const auto bytes = parse_budget(text, base_);
  if (!bytes) throw UserError("there is no budget in ''; write bytes, 512MiB, 50%, min or min+10%");
  return most_ ? std::min(*most_, *bytes) : *bytes;
}

std::int64_t BudgetControl::ask(std::string_view text) {
  const std::int64_t bytes = bytes_of(text);
  const std::lock_guard lock(mutex_);
  request_ = bytes;
  has_request_ = true;
  return std::max(bytes, base_.min_bytes);
}

bool BudgetControl::advance(std::int64_t step) {
  // Only now is it known what the step before had: hold_at() may have come in between.
  if (has_begun_) most_held_ = most_held();
  has_begun_ = true;
  const std::optional<std::int64_t> before = asked_;
  for (; next_ < schedule_.size() && schedule_[next_].step <= step; ++next_) asked_ = schedule_[next_].bytes;
  if (has_request_) {
    const std::lock_guard lock(mutex_);
    asked_ = request_;
    has_request_ = false;
  }
  return asked_ != before;
}

std::optional<std::int64_t> BudgetControl::effective() const {
  return asked_ ? std::optional(std::max(*asked_, base_.min_bytes)) : std::nullopt;
}

std::int64_t BudgetControl::most_held() const { return std::max(most_held_, effective().value_or(kNoBudget)); }

std::optional<std::int64_t> BudgetControl::largest() const {
  const std::int64_t most = most_held();
  return most == kNoBudget ? std::nullopt : std::optional(most);
}

std::vector<std::int64_t> BudgetControl::coming(std::int64_t step) const {
  std::vector<std::int64_t> out;
  for (const Change& c : schedule_) {
    if (c.step > step) out.push_back(std::max(c.bytes, base_.min_bytes));
  }
  return out;
}

}  // namespace neap
