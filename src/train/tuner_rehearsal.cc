// Whether a variant gives the same as what runs, and what becomes of one that does not.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/clock.h"
#include "train/tuner.h"

namespace neap {

// The batch of the coming step through the variant, without a change of state.
void Tuner::rehearse() {
  const auto start = Clock::now();
  run_.put_in(*trial_);
  promised_ = trial_->executor().rehearse(allowed_error() > 0);
  spend(Effort::kRehearse, ms_since(start));
  phase_ = Phase::kRehearsal;
}

void Tuner::run_noted() { done_ = running_->executor().run_noted(allowed_error() > 0); }

Tuner::Passes Tuner::used(const Actions& actions) const {
  Passes out;
  for (const int action : actions) {
    const auto& passes = ways_[static_cast<std::size_t>(action)].passes;
    out.insert(passes.begin(), passes.end());
  }
  return out;
}

bool Tuner::is_rejected(int action) const {
  const auto& passes = ways_[static_cast<std::size_t>(action)].passes;
  return std::any_of(passes.begin(), passes.end(), [&](const auto* each) { return rejected_.contains(each); });
}

bool Tuner::is_proven(int action) const {
  const auto& passes = ways_[static_cast<std::size_t>(action)].passes;
  return std::all_of(passes.begin(), passes.end(), [&](const auto* each) { return proven_.contains(each); });
}

// What either side may add to the error of the other.
double Tuner::allowed_error() const {
  Passes all = used(candidate_.actions);
  all.merge(used(current_actions_));
  double out = 0;
  for (const Optimization* each : all) out += each->tolerance;
  return out;
}

void Tuner::compare() {
  const double allowed = allowed_error();
  std::map<std::string_view, const Rehearsed*> promised;
  for (const Rehearsed& each : promised_) promised[each.name] = &each;
  double worst = 0;
  std::string first;
  int others = -1;
  for (const Rehearsed& each : done_) {
    const auto at = promised.find(each.name);
    const bool is_same = at != promised.end() && at->second->hash == each.hash;
    const double error = at == promised.end() ? 1 : relative_error(each, *at->second);
    if (is_same || (allowed > 0 && error <= allowed)) continue;
    if (others++ < 0) first = each.name;
    worst = std::max(worst, error);
  }
  if (others < 0) {
    prove();
    shown_.insert(key_of(candidate_.actions));
    return begin_trial();
  }
  const std::string size = allowed > 0 ? fmt::format(", off by {:.1e} where {:.1e} is allowed", worst, allowed) : "";
  reject(suspects(), fmt::format("gives other results ('{}' and {} others{})", first, others, size));
}

// Where the two sides differ and one of them is known to be right, so is the other.
void Tuner::prove() {
  for (std::size_t p = 0; p < candidate_.actions.size(); ++p) {
    const int was = current_actions_[p];
    const int is = candidate_.actions[p];
    if (was == is || (!is_proven(was) && !is_proven(is))) continue;
    proven_.merge(used({was, is}));
  }
}

// Of both sides, those that have not been seen to give what the settled step gives.
Tuner::Passes Tuner::suspects() const {
  Passes all = used(candidate_.actions);
  all.merge(used(current_actions_));
  Passes out = all;
  std::erase_if(out, [&](const auto* each) { return proven_.contains(each); });
  return out.empty() ? all : out;
}

// The settled step is what is right: if a suspect is part of what runs, that stops too.
void Tuner::reject(const Passes& wrong, const std::string& why) {
  std::string names;
  for (const Optimization* each : options_.library) {
    if (wrong.contains(each)) names += fmt::format("{}{}", names.empty() ? "" : " or ", each->name);
  }
  rejected_.insert(wrong.begin(), wrong.end());
  log_.push_back(fmt::format("optimization {} {}; it is left out from now on", names, why));
  note_ = log_.back();
  const Passes here = used(current_actions_);
  const bool runs = std::any_of(wrong.begin(), wrong.end(), [&](const auto* each) { return here.contains(each); });
  if (!runs) return give_up();
  if (used(candidate_.actions).empty() && trial_) return adopt(std::move(trial_));
  rest();
  compile(Actions(pieces_->size(), 0), Purpose::kRepair);
}

// The settled step takes over, whatever it costs.
void Tuner::repair(std::int64_t most) {
  if (candidate_.plan.peak_bytes > most) {
    log_.emplace_back("the step without it does not fit into the budget: it goes on as it was");
    note_ = log_.back();
    return rest();
  }
  adopt(std::make_unique<Stepper>(run_.base.shape(), candidate_.program, candidate_.plan, candidate_.layout,
                                  run_.device, run_.arena, nullptr));
}

}  // namespace neap
