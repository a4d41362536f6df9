#include "train/race.h"

#include <algorithm>
#include <limits>

#include "neap/error.h"
#include "train/median.h"
#include "train/rounded.h"

namespace neap {
namespace {

constexpr int kRounds = 3;
constexpr int kVisit = 3;  // steps in a row; the first one pays for the change
// Nothing that took so much longer in every step than the best in half of them is given another round.
constexpr double kHopeless = 1.03;

constexpr double kWorthARace = 1.2;  // of the simulated time of what runs

constexpr std::int64_t kRest = 32;  // steps
constexpr std::int64_t kMostDoublings = 3;

}  // namespace

Race::Race(std::vector<Plan> plans) {
  require(plans.size() > 1, "a race has two plans or more");
  for (Plan& plan : plans) runners_.push_back({.plan = std::move(plan), .ms = {}});
}

bool Race::add(double ms) {
  if (is_over_) return false;
  if (visit_++ > 0) runners_[at_].ms.push_back(ms);
  if (visit_ < kVisit) return false;
  visit_ = 0;
  const std::size_t before = at_;
  at_ = next();
  if (at_ <= before) {  // all have had their turn
    drop_the_hopeless();
    at_ = runners_[at_].is_out ? next() : at_;
    const auto left = std::count_if(runners_.begin(), runners_.end(), [](const Runner& r) { return !r.is_out; });
    is_over_ = ++round_ == kRounds || left == 1;
  }
  if (is_over_) at_ = fastest();
  is_waiting_ = at_ != before;
  return is_waiting_;
}

std::int64_t Race::bytes() const {
  std::int64_t out = 0;
  for (const Runner& r : runners_) out += own_bytes(r.plan);
  return out;
}

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
    if (best == runners_.size() || median(runners_[i].ms) < median(runners_[best].ms)) best = i;
  }
  return best;
}

void Race::drop_the_hopeless() {
  const double best = median(runners_[fastest()].ms);
  for (Runner& r : runners_) {
    r.is_out = r.is_out || *std::min_element(r.ms.begin(), r.ms.end()) > kHopeless * best;
  }
}

std::vector<Plan> entrants_of(std::vector<Plan> offered, const Plan& present, std::optional<Plan> former,
                              std::int64_t limit, const std::function<double(const Plan&)>& ms) {
  const bool is_within = present.peak_bytes <= limit;
  const double most = is_within ? kWorthARace * ms(present) : std::numeric_limits<double>::infinity();
  std::vector<Plan> out;
  const auto enter = [&](Plan plan, bool is_sure) {
    if (plan.peak_bytes > limit || (!is_sure && ms(plan) > most)) return;
    if (std::ranges::find(out, plan) == out.end()) out.push_back(std::move(plan));
  };
  for (std::size_t i = 0; i < offered.size(); ++i) {
    const bool spills = !offered[i].slots.empty();
    enter(std::move(offered[i]), i > 0 && spills);
  }
  enter(present, true);
  if (former) enter(std::move(*former), false);
  return out;
}

void RaceRest::begin(std::int64_t step) { until_ = step + (kRest << std::min(races_++, kMostDoublings)); }

}  // namespace neap
