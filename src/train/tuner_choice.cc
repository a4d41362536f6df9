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

}  // namespace

std::optional<double> Tuner::known(std::size_t p, int action) const {
  return times_.of(action, pieces_->piece(p).first, pieces_->piece(p).last);
}

// Of each piece an action that was never timed there, the agent's if it is one. First what runs is compared with the
// settled step; then, of actions whose results nobody has seen yet, one at a time: so it is clear which one is wrong.
std::optional<Actions> Tuner::untried() {
  Actions out = current_actions_;
  const std::set<int> here = used(current_actions_);
  const bool is_right = std::ranges::includes(proven_, here);
  std::optional<int> unseen;
  for (std::size_t p = 0; p < pieces_->size(); ++p) {
    std::vector<int> wishes = {agent_.choose(pieces_->state(p, pieces_->ms(p, node_ms_), current_actions_[p]))};
    for (int action = 0; action <= static_cast<int>(options_.library.size()); ++action) wishes.push_back(action);
    for (const int action : wishes) {
      const bool is_seen = action == 0 || proven_.contains(action) || here.contains(action) ||
                           (is_right && unseen.value_or(action) == action);
      const bool is_new = action != current_actions_[p] && !tried_[p].contains(action) && !known(p, action);
      if (!is_new || !is_seen || rejected_.contains(action)) continue;
      out[p] = action;
      if (action != 0 && !proven_.contains(action) && !here.contains(action)) unseen = action;
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
  for (int action = 0; action <= static_cast<int>(options_.library.size()); ++action) {
    const auto ms = known(p, action);
    if (!ms || rejected_.contains(action) || *ms >= best_ms) continue;
    best = action;
    best_ms = *ms;
  }
  const int wish = agent_.choose(pieces_->state(p, now_ms, current_actions_[p]));
  const auto wish_ms = known(p, wish);
  const bool agrees = wish_ms && !rejected_.contains(wish) && *wish_ms <= kAsGood * best_ms;
  if (!agrees) ++overruled_;
  const int out = agrees ? wish : best;
  return known(p, out).value_or(now_ms) < (1 - kWorthwhile) * now_ms ? out : current_actions_[p];
}

// A step of it is made and timed if it promises to give back what that takes.
void Tuner::choose() {
  Actions chosen = current_actions_;
  double now_ms = 0;
  double then_ms = 0;
  for (std::size_t p = 0; p < pieces_->size(); ++p) {
    const auto here_ms = known(p, current_actions_[p]);
    if (!here_ms) continue;  // nothing was tried
    chosen[p] = choice_for(p, *here_ms);
    now_ms += *here_ms;
    then_ms += known(p, chosen[p]).value_or(*here_ms);
  }
  const bool is_timed_once_more = trial_ && chosen == candidate_.actions;
  const auto left = static_cast<double>(std::max<std::int64_t>(0, options_.steps - step_));
  const double cost_ms = is_timed_once_more ? 0 : expected_ms_ + compile_ms_;
  const bool promises = then_ms < (1 - kWorthwhile) * now_ms && (now_ms - then_ms) * left > unpaid_ms_ + cost_ms;
  if (chosen == current_actions_ || !promises) return rest();
  if (is_timed_once_more) {
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
    return rest();
  }
  note_ = log_.back();
  node_ms_ = medians(fresh_.nodes);
  expected_ms_ *= fresh_ms / old_ms;
  unpaid_ms_ = 0;
  idle_drifts_ = 0;
  ++adoptions_;
  adopt(std::move(trial_));
}

void Tuner::adopt(std::unique_ptr<Stepper> stepper) {
  retired_ = std::exchange(adopted_, std::move(stepper));
  current_actions_ = candidate_.actions;
  phase_ = Phase::kWatch;
}

}  // namespace neap
