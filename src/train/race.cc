#include "train/race.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "neap/error.h"
#include "train/rounded.h"

namespace neap {
namespace {

constexpr int kRounds = 3;
constexpr int kVisit = 3;  // steps in a row; the first one pays for the change
// Nothing that took so much longer than the best is given another round; two steps alone say little.
constexpr double kHopeless[kRounds] = {1.1, 1.05, 1.03};

// Between its two visits in a round a runner takes as long, or the machine is not what it was.
constexpr double kSteady = 1.12;
constexpr int kMostRepeats = 2;  // a burst begins and ends; some machines are never steady

// As many go on after a round at most: a race of four is over in thirty steps.
constexpr std::size_t kGoOn[kRounds - 1] = {3, 2};

constexpr std::size_t kMostEntrants = 4;
constexpr double kWorthARace = 1.2;  // of the simulated time of what runs
constexpr double kAsLong = 0.01;     // of the same: no difference

constexpr std::int64_t kRest = 32;  // steps
constexpr std::int64_t kMostDoublings = 3;
constexpr double kMostLost = 0.01;  // of the steps

}  // namespace

Race::Race(std::vector<Plan> plans) {
  require(plans.size() > 1, "a race has two plans or more");
  for (Plan& plan : plans) runners_.push_back({.plan = std::move(plan), .ms = {}});
}

bool Race::add(double ms) {
  if (is_over_) return false;
  total_ms_ += ms;
  ++steps_;
  if (visit_++ > 0) (is_closing_ ? closing_ : runners_[at_].now).push_back(ms);
  if (visit_ < kVisit) return false;
  visit_ = 0;
  const std::size_t before = at_;
  end_visit();
  is_waiting_ = at_ != before;
  return is_waiting_;
}

void Race::end_visit() {
  if (is_closing_) return end_round();
  at_ = next();
  is_closing_ = at_ == first_;
}

void Race::end_round() {
  if (repeats_ < kMostRepeats && is_disturbed()) {
    ++repeats_;
  } else {
    count_round();
  }
  for (Runner& r : runners_) r.now.clear();
  is_closing_ = false;
  if (is_over_) {
    at_ = fastest();
    return;
  }
  const bool goes_on = !runners_[first_].is_out;
  if (goes_on) runners_[first_].now = closing_;  // the end of a round is the beginning of the next
  closing_.clear();
  at_ = next();
  if (!goes_on) first_ = at_;
}

bool Race::is_disturbed() const {
  const double opening = std::ranges::min(runners_[first_].now);
  const double closing = std::ranges::min(closing_);
  return opening > kSteady * closing || closing > kSteady * opening;
}

void Race::count_round() {
  for (Runner& r : runners_) r.ms.insert(r.ms.end(), r.now.begin(), r.now.end());
  drop_the_hopeless();
  if (round_ + 1 < kRounds) drop_all_but(kGoOn[round_]);
  is_over_ = ++round_ == kRounds || left() == 1;
}

std::int64_t Race::bytes() const {
  std::int64_t out = 0;
  for (const Runner& r : runners_) out += own_bytes(r.plan);
  return out;
}

// What disturbs a machine only makes steps longer, and often several in a row: the two shortest say what a plan takes,
// once there are more than two.
double Race::Runner::takes() const {
  std::vector<double> sorted = ms;
  std::ranges::sort(sorted);
  return sorted.size() > 2 ? (sorted[0] + sorted[1]) / 2 : sorted[0];
}

void Race::Runner::drop_out() {
  is_out = true;
  plan = {};
}

double Race::lost_steps() const { return total_ms_ / runners_[fastest()].takes() - steps_; }

std::size_t Race::next() const {
  std::size_t i = at_;
  do i = (i + 1) % runners_.size();
  while (runners_[i].is_out);
  return i;
}

std::size_t Race::fastest() const {
  std::size_t best = runners_.size();
  for (std::size_t i = 0; i < runners_.size(); ++i) {
    if (runners_[i].is_out) continue;
    if (best == runners_.size() || runners_[i].takes() < runners_[best].takes()) best = i;
  }
  return best;
}

void Race::drop_the_hopeless() {
  const double best = runners_[fastest()].takes();
  for (Runner& r : runners_) {
    if (!r.is_out && r.takes() > kHopeless[round_] * best) r.drop_out();
  }
}

std::size_t Race::left() const {
  return static_cast<std::size_t>(std::ranges::count(runners_, false, &Runner::is_out));
}

void Race::drop_all_but(std::size_t count) {
  const auto takes = [](const Runner& r) { return r.is_out ? -1 : r.takes(); };
  while (left() > count) std::ranges::max_element(runners_, {}, takes)->drop_out();
}

namespace {

// What is computed again, leaves the arena, or is encoded: everything but when transfers are begun.
std::vector<std::tuple<Action, std::uint32_t, std::uint32_t>> decided_in(const Plan& plan) {
  std::vector<std::tuple<Action, std::uint32_t, std::uint32_t>> out;
  for (const Instruction& in : plan.instructions) {
    const bool is_decision =
        in.action == Action::kRecompute || in.action == Action::kSpillBegin || in.action == Action::kEncode;
    if (is_decision) out.emplace_back(in.action, in.node.index, in.tensor.index);
  }
  std::ranges::sort(out);
  return out;
}

}  // namespace

std::vector<Plan> entrants_of(std::vector<Plan> offered, const Plan& present, std::optional<Plan> former,
                              std::int64_t limit, const std::function<double(const Plan&)>& ms, std::int64_t room) {
  const bool is_within = present.peak_bytes <= limit;
  const double present_ms = ms(present);
  const double most = is_within ? kWorthARace * present_ms : std::numeric_limits<double>::infinity();
  std::vector<Plan> out;
  std::vector<double> takes;                    // each of them
  std::int64_t bytes = 2 * own_bytes(present);  // it and the one that is offered have their place
  const auto is_like = [](const Plan& a, double a_ms, const Plan& b, double b_ms) {
    return a == b || (std::abs(a_ms - b_ms) <= kAsLong * b_ms && decided_in(a) == decided_in(b));
  };
  const auto enter = [&](Plan plan, double plan_ms, bool is_sure) {
    if (out.size() == kMostEntrants || plan.peak_bytes > limit || (!is_sure && plan_ms > most)) return;
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (is_like(plan, plan_ms, out[i], takes[i])) return;
    }
    out.push_back(std::move(plan));
    takes.push_back(plan_ms);
  };
  std::stable_partition(offered.begin() + 1, offered.end(), [](const Plan& p) { return !p.slots.empty(); });
  for (std::size_t i = 0; i < offered.size(); ++i) {
    const double offered_ms = ms(offered[i]);
    if (is_within && is_like(offered[i], offered_ms, present, present_ms)) continue;
    if (!out.empty() && (bytes += own_bytes(offered[i])) > room) break;
    if (out.size() + 1 == kMostEntrants && is_within) break;  // the last place is that of what runs
    const bool spills = !offered[i].slots.empty();
    enter(std::move(offered[i]), offered_ms, i > 0 && spills);
  }
  enter(present, present_ms, true);
  if (former && bytes + own_bytes(*former) <= room) {
    const double former_ms = ms(*former);
    enter(std::move(*former), former_ms, false);
  }
  return out;
}

void RaceRest::begin(std::int64_t step, double lost_steps) {
  constexpr std::int64_t kMost = kRest << kMostDoublings;
  const std::int64_t least = kRest << std::min(races_++, kMostDoublings);
  until_ = step + std::max(least, static_cast<std::int64_t>(std::min<double>(kMost, lost_steps / kMostLost)));
}

}  // namespace neap
