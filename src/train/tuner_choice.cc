// What the tuner tries, what it learns from that, and what it chooses.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/clock.h"
#include "train/median.h"
#include "train/tuner.h"

namespace neap {
namespace {

constexpr double kWorthwhile = 0.01;  // of a piece's time, or of a step's
constexpr double kAsGood = 1.02;      // of the best time: the clock cannot tell them apart
constexpr double kClear = 0.95;       // of a step's time: so much faster that the rest can wait

}  // namespace

std::optional<double> Tuner::known(std::size_t p, int action) const {
  return times_.of(action, pieces_->piece(p).first, pieces_->piece(p).last);
}

// Of each piece an action that was never timed there, the agent's if it is one. First what runs is compared with the
// settled step; then, of passes whose results nobody has seen yet, one at a time: so it is clear which one is wrong.
std::optional<Actions> Tuner::untried() {
  Actions out = current_actions_;
  const Passes here = used(current_actions_);
  const bool is_right = std::ranges::includes(proven_, here);
  const Optimization* first = nullptr;  // that is seen in this trial for the first time
  for (std::size_t p = 0; p < pieces_->size(); ++p) {
    std::vector<int> wishes = {agent_.choose(pieces_->state(p, pieces_->ms(p, node_ms_), current_actions_[p]))};
    for (int action = 0; action < static_cast<int>(ways_.size()); ++action) wishes.push_back(action);
    for (const int action : wishes) {
      const bool is_new = action != current_actions_[p] && !tried_[p].contains(action) && !known(p, action);
      if (!is_new || is_rejected(action)) continue;
      Passes unseen = used({action});
      std::erase_if(unseen, [&](const auto* each) { return proven_.contains(each) || here.contains(each); });
      const bool is_alone = unseen.size() == 1 && (first == nullptr || unseen.contains(first));
      if (!unseen.empty() && !(is_right && is_alone)) continue;
      if (!unseen.empty()) first = *unseen.begin();
      out[p] = action;
      break;
    }
  }
  return out == current_actions_ ? std::nullopt : std::optional(out);
}

// A trial is over.
void Tuner::judge() {
  const double old_ms = median(old_.ms);
  const double fresh_ms = median(fresh_.ms);
  spend(std::max(0.0, fresh_ms - old_ms) * static_cast<double>(fresh_.ms.size()));
  learn(medians(old_.nodes), medians(fresh_.nodes));
  if (candidate_.purpose == Purpose::kChoice) return settle(old_ms, fresh_ms);
  log_.push_back(
      fmt::format("tried {}: {:.2f} ms a step where {:.2f} is usual", text_of(candidate_.actions), fresh_ms, old_ms));
  if (fresh_ms < kClear * old_ms) return choose();
  next();
}

void Tuner::learn(const std::vector<double>& old, const std::vector<double>& fresh) {
  node_ms_ = old;
  for (std::uint32_t i = 0; i < pieces_->nodes(); ++i) {
    const std::size_t p = pieces_->piece_of(i);
    times_.set(candidate_.actions[p], i, pieces_->nodes(), fresh[i]);
    times_.set(current_actions_[p], i, pieces_->nodes(), old[i]);
  }
  for (std::size_t p = 0; p < pieces_->size(); ++p) {
    const double old_ms = pieces_->ms(p, old);
    const double fresh_ms = pieces_->ms(p, fresh);
    const dqn::State was = pieces_->state(p, old_ms, current_actions_[p]);
    const double gain = dqn::reward_of({}, old_ms, fresh_ms, was.bandwidth, pieces_->state(p, fresh_ms, 0).bandwidth);
    agent_.remember(was, current_actions_[p], 0);
    if (candidate_.actions[p] != current_actions_[p]) agent_.remember(was, candidate_.actions[p], gain);
  }
  const auto start = Clock::now();
  agent_.learn();
  spend(ms_since(start));
}

// The agent's word, unless the clock knows better.
int Tuner::choice_for(std::size_t p, double now_ms) {
  int best = current_actions_[p];
  double best_ms = now_ms;
  for (int action = 0; action < static_cast<int>(ways_.size()); ++action) {
    const auto ms = known(p, action);
    if (!ms || is_rejected(action) || *ms >= best_ms) continue;
    best = action;
    best_ms = *ms;
  }
  const int wish = agent_.choose(pieces_->state(p, now_ms, current_actions_[p]));
  const auto wish_ms = known(p, wish);
  const bool agrees = wish_ms && !is_rejected(wish) && *wish_ms <= kAsGood * best_ms;
  if (!agrees) ++overruled_;
  const int out = agrees ? wish : best;
  return known(p, out).value_or(now_ms) < (1 - kWorthwhile) * now_ms ? out : current_actions_[p];
}

// By what was measured of them. What was not counts as it is now.
double Tuner::predicted_ms(const Actions& actions) const {
  double out = 0;
  for (std::size_t p = 0; p < pieces_->size(); ++p) {
    const double now_ms = known(p, current_actions_[p]).value_or(0);
    out += known(p, actions[p]).value_or(now_ms);
  }
  return out;
}

// A step of it is made and timed if it promises to give back what that takes. What was just tried, if it is about as
// good, has been made and compared already.
void Tuner::choose() {
  Actions chosen = current_actions_;
  for (std::size_t p = 0; p < pieces_->size(); ++p) {
    if (const auto ms = known(p, current_actions_[p])) chosen[p] = choice_for(p, *ms);
  }
  const double now_ms = predicted_ms(current_actions_);
  const bool is_as_good = trial_ && predicted_ms(candidate_.actions) <= kAsGood * predicted_ms(chosen);
  if (trial_ && (is_as_good || !can_afford())) chosen = candidate_.actions;
  const bool is_made = trial_ && chosen == candidate_.actions;
  const double then_ms = predicted_ms(chosen);
  const auto left = static_cast<double>(std::max<std::int64_t>(0, options_.steps - step_));
  const double cost_ms = is_made ? 0 : expected_ms_ + compile_ms_;
  const bool promises = then_ms < (1 - kWorthwhile) * now_ms && (now_ms - then_ms) * left > unpaid_ms_ + cost_ms;
  if (chosen == current_actions_ || !promises) return rest();
  if (is_made) {
    candidate_.purpose = Purpose::kChoice;
    return begin_trial();
  }
  rest();
  if (can_afford()) compile(std::move(chosen), Purpose::kChoice);
}

// The choice stays if it is faster, not by chance, and gives back in the steps that are left what it has cost.
void Tuner::settle(double old_ms, double fresh_ms) {
  const auto left = static_cast<double>(std::max<std::int64_t>(0, options_.steps - step_));
  std::size_t wins = 0;
  for (std::size_t i = 0; i < fresh_.ms.size(); ++i) wins += fresh_.ms[i] < old_.ms[i] ? 1 : 0;
  const bool is_faster = fresh_ms < (1 - kWorthwhile) * old_ms && wins + 1 >= fresh_.ms.size();
  const bool is_better = is_faster && (old_ms - fresh_ms) * left > unpaid_ms_;
  log_.push_back(fmt::format("chose {}: {:.2f} ms a step where {:.2f} is usual, {}", text_of(candidate_.actions),
                             fresh_ms, old_ms, is_better ? "it stays" : "not worth it, all stays as it was"));
  if (!is_better) {
    refused_.insert(candidate_.program->numerics_id);
    return go_on();
  }
  note_ = log_.back();
  node_ms_ = medians(fresh_.nodes);
  expected_ms_ *= fresh_ms / old_ms;
  unpaid_ms_ = 0;
  idle_drifts_ = 0;
  ++adoptions_;
  adopt(std::move(trial_));
  go_on();
}

// There may be more that nobody has seen.
void Tuner::go_on() {
  if (untried()) return next();
  rest();
}

void Tuner::adopt(std::unique_ptr<Stepper> stepper) {
  retired_ = std::exchange(adopted_, std::move(stepper));
  current_actions_ = candidate_.actions;
  phase_ = Phase::kWatch;
}

}  // namespace neap
