// What the tuner tries, what it learns from that, and what it chooses.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/clock.h"
#include "train/tuner.h"

namespace neap {
namespace {

constexpr double kWorthwhile = 0.01;    // of a piece's time, or of a step's
constexpr double kAsGood = 1.02;        // of the best time: the clock cannot tell them apart
constexpr std::size_t kMostPairs = 16;  // of steps in a trial: what is not clear by then is close

}  // namespace

std::optional<StrategyTimes::Known> Tuner::known(std::size_t p, int action) const {
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

// What two more steps of the variant would take.
bool Tuner::has_spent_all(const Difference& whole) const {
  const auto steps = static_cast<double>(duel_.fresh_steps() + 2);
  return spent_ms_ + std::max(0.0, whole.ms) * steps > allowed_ms();
}

// Enough is known: of the choice as a whole, of what is tried to learn from it of every piece that is another one.
bool Tuner::is_decided(const Difference& whole) const {
  const auto is_open = [&](const Difference& d) {
    return verdict_of(d, duel_.pairs(), whole.old_ms) == Verdict::kOpen;
  };
  if (duel_.pairs() >= kMostPairs) return true;
  if (candidate_.purpose == Purpose::kChoice || pieces_->size() == 1) return !is_open(whole);
  if (verdict_of(whole, duel_.pairs(), whole.old_ms) == Verdict::kFaster) return true;
  for (std::size_t p = 0; p < pieces_->size(); ++p) {
    const Subgraph& piece = pieces_->piece(p);
    if (is_open(duel_.of(piece.first, piece.last))) return false;
  }
  return true;
}

// A trial is over. What is faster stays at once; what is known of pieces may make a better one of it later.
void Tuner::judge() {
  const Difference whole = duel_.whole();
  Verdict verdict = verdict_of(whole, duel_.pairs(), whole.old_ms);
  if (verdict == Verdict::kOpen) verdict = last_verdict_of(whole, whole.old_ms);
  const double surely_ms = std::max(0.0, whole.ms - whole.error_ms / 2);  // of one pair the half
  const double slower_ms = surely_ms * static_cast<double>(duel_.fresh_steps());
  spent_ms_ += slower_ms;
  unpaid_ms_ += slower_ms;
  learn();
  settle(whole, verdict);
  next();
}

// The variant stays if it is faster, not by chance, and gives back in the steps that are left what it has cost.
void Tuner::settle(const Difference& whole, Verdict verdict) {
  const auto left = static_cast<double>(std::max<std::int64_t>(0, options_.steps - step_));
  const bool is_better = verdict == Verdict::kFaster && -whole.ms * left > unpaid_ms_;
  const char* const what = candidate_.purpose == Purpose::kChoice ? "chose" : "tried";
  const char* const end = verdict == Verdict::kSame ? "no difference, all stays as it was"
                          : is_better               ? "it stays"
                                                    : "not worth it, all stays as it was";
  log_.push_back(fmt::format("{} {}: {:.2f} ms a step where {:.2f} is usual, to {:.2f} after {} rounds; {}", what,
                             text_of(candidate_.actions), whole.old_ms + whole.ms, whole.old_ms, whole.error_ms,
                             duel_.pairs(), end));
  if (!is_better) {
    refused_.insert(candidate_.actions);
    return;
  }
  note_ = log_.back();
  node_ms_ = duel_.fresh_nodes();
  expected_ms_ *= 1 + whole.ms / whole.old_ms;
  least_ms_ = std::min(least_ms_, expected_ms_);
  shift_.reset();
  felt_ = 0;
  unpaid_ms_ = 0;
  idle_drifts_ = 0;
  ++adoptions_;
  adopt(std::move(trial_));
}

void Tuner::learn() {
  const std::vector<double> old = duel_.old_nodes();
  const std::vector<double> fresh = duel_.fresh_nodes();
  node_ms_ = old;
  for (std::size_t p = 0; p < pieces_->size(); ++p) note(p, old, fresh);
  const auto start = Clock::now();
  agent_.learn();
  spend(Effort::kLearn, ms_since(start));
}

// Times of different trials are told apart by more than the variants: each is taken relative to what ran beside it.
void Tuner::note(std::size_t p, const std::vector<double>& old, const std::vector<double>& fresh) {
  const Subgraph& piece = pieces_->piece(p);
  const int was = current_actions_[p];
  const int is = candidate_.actions[p];
  const Difference part = duel_.of(piece.first, piece.last);
  const auto before = known(p, was);
  double fresh_part = 0;
  for (std::uint32_t i = piece.first; i < piece.last; ++i) fresh_part += duel_.differs()[i] ? fresh[i] : 0;
  const double scale = fresh_part > 0 ? std::max(0.0, part.old_ms + part.ms) / fresh_part : 0;
  const double now_ms = pieces_->ms(p, old);
  const double unit = before && now_ms > 0 ? before->ms / now_ms : 1;
  double then_ms = 0;
  for (std::uint32_t i = piece.first; i < piece.last; ++i) {
    const double ms = duel_.differs()[i] ? scale * fresh[i] : old[i];
    const double share = duel_.differs()[i] && fresh_part > 0 ? fresh[i] / fresh_part : 0;
    then_ms += ms;
    if (!before) times_.set(was, i, pieces_->nodes(), {.ms = old[i]});
    if (is != was) times_.set(is, i, pieces_->nodes(), {.ms = unit * ms, .error_ms = unit * share * part.error_ms});
  }
  const dqn::State state = pieces_->state(p, now_ms, was);
  const double gain = dqn::reward_of({}, now_ms, then_ms, state.bandwidth, pieces_->state(p, then_ms, 0).bandwidth);
  agent_.remember(state, was, 0);
  if (is != was) agent_.remember(state, is, gain);
}

// The agent's word, unless the clock knows better. What is not surely faster than what runs is no choice.
int Tuner::choice_for(std::size_t p, double now_ms) {
  int best = current_actions_[p];
  double best_ms = now_ms;
  const auto is_faster = [&](const std::optional<StrategyTimes::Known>& time, int action) {
    return time && !is_rejected(action) && now_ms - time->ms > std::max(kWorthwhile * now_ms, time->error_ms);
  };
  for (int action = 0; action < static_cast<int>(ways_.size()); ++action) {
    const auto time = known(p, action);
    if (!is_faster(time, action) || time->ms >= best_ms) continue;
    best = action;
    best_ms = time->ms;
  }
  const int wish = agent_.choose(pieces_->state(p, now_ms, current_actions_[p]));
  const auto time = known(p, wish);
  const bool is_as_good = time && !is_rejected(wish) && time->ms <= kAsGood * best_ms;
  if (!is_as_good) ++overruled_;
  return is_as_good && is_faster(time, wish) ? wish : best;
}

// By what was measured of them. What was not counts as it is now.
double Tuner::predicted_ms(const Actions& actions) const {
  double out = 0;
  for (std::size_t p = 0; p < pieces_->size(); ++p) {
    const auto now = known(p, current_actions_[p]);
    const auto then = known(p, actions[p]);
    out += then ? then->ms : now ? now->ms : 0;
  }
  return out;
}

// The best of each piece, if together they promise to give back what that takes, and there is something left to take.
std::optional<Actions> Tuner::promising() {
  Actions chosen = current_actions_;
  for (std::size_t p = 0; p < pieces_->size(); ++p) {
    if (const auto now = known(p, current_actions_[p])) chosen[p] = choice_for(p, now->ms);
  }
  if (chosen == current_actions_ || refused_.contains(chosen)) return std::nullopt;
  const bool has_been_shown = is_shown(chosen);
  const double now_ms = predicted_ms(current_actions_);
  const double gain_ms = now_ms - predicted_ms(chosen);
  const auto left = static_cast<double>(std::max<std::int64_t>(0, options_.steps - step_));
  const double cost_ms = unpaid_ms_ + compile_ms_ + (has_been_shown ? 0 : expected_ms_);
  const bool promises = gain_ms > kWorthwhile * now_ms && gain_ms * left > cost_ms;
  return promises && can_afford(has_been_shown) ? std::optional(chosen) : std::nullopt;
}

void Tuner::adopt(std::unique_ptr<Stepper> stepper) {
  retired_ = std::exchange(adopted_, std::move(stepper));
  current_actions_ = candidate_.actions;
  phase_ = Phase::kWatch;
}

}  // namespace neap
