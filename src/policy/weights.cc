#include "policy/weights.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "core/bytes.h"
#include "plan/loose_transfers.h"
#include "plan/schedule.h"
#include "plan/simulate.h"

namespace neap {
namespace {

constexpr std::int64_t kWorthwhile = 64 * kKiB;  // below this a transfer is all latency: those leave last

// Their numbers, so that any first few of them lie evenly among all.
std::vector<std::size_t> spread(std::size_t count) {
  std::vector<std::size_t> out;
  const std::size_t all = std::bit_ceil(std::max<std::size_t>(count, 1));
  for (std::size_t i = 0; i < all; ++i) {
    std::size_t reversed = 0;
    for (std::size_t bit = 1; bit < all; bit <<= 1U) reversed = reversed << 1U | ((i & bit) != 0 ? 1U : 0U);
    const std::size_t from_end = all - 1 - reversed;
    if (from_end < count) out.push_back(from_end);
  }
  return out;
}

}  // namespace

Decisions with_weights_outside(Decisions base, const Graph& graph, const WeightsOutside& outside) {
  base.residency.resize(graph.tensors.size(), Residency::kKeep);
  for (const std::string& name : outside.names) {
    if (const auto id = graph.find(name)) base.residency[id->index] = Residency::kSpill;
  }
  base.flight_bytes = outside.link.is_ahead ? outside.flight_bytes : 0;
  base.link = outside.link;
  base.link.lead = kAsEarlyAsItCan;
  return base;
}

Plan plan_with_weights_outside(const Graph& graph, const Costs& costs, const WeightsOutside& outside,
                               std::int64_t budget, const StateLayout* layout) {
  const Decisions decisions = with_weights_outside({}, graph, outside);
  Plan plan = std::get<Plan>(make_plan(graph, costs, decisions, kNoBudget, layout));
  return with_loose_transfers(std::move(plan), costs, outside.link, kAsEarlyAsItCan, budget);
}

std::vector<std::string> slot_names(const Plan& plan, const Graph& graph) {
  std::vector<std::string> out;
  for (const TensorId id : plan.slot_tensors) out.push_back(graph.at(id).name);
  return out;
}

WeightSearch::WeightSearch(const PlanningProblem& problem) : p_(problem), views_(find_views(problem.graph)) {
  find_candidates();
}

// What lies outside comes in in whole pages, so nothing is gained by what is smaller.
void WeightSearch::find_candidates() {
  const std::vector<bool> is_streamable = find_streamable(p_.graph, views_);
  Decisions all;
  all.residency.resize(p_.graph.tensors.size(), Residency::kKeep);
  for (std::uint32_t i = 0; i < is_streamable.size(); ++i) {
    const std::int64_t bytes = p_.graph.tensors[i].type.bytes();
    if (is_streamable[i] && bytes > kPage) all.residency[i] = Residency::kSpill;
  }
  const Schedule schedule = make_schedule(p_.graph, views_, all, p_.costs);
  std::vector<Candidate> found;
  for (std::size_t s = 0; s < schedule.slots.size(); ++s) {
    found.push_back({.id = schedule.slot_tensors[s], .bytes = schedule.slots[s]});
  }
  for (std::size_t c = 0; c < schedule.calls.size(); ++c) {
    const Call& call = schedule.calls[c];
    if (call.action != Action::kFetchBegin) continue;
    Candidate& candidate = found[call.slot];
    if (candidate.moved_bytes == 0) candidate.first_use = c;
    candidate.moved_bytes += candidate.bytes;
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Candidate& a, const Candidate& b) { return a.first_use < b.first_use; });
  candidates_ = std::move(found);
}

// Who leaves first. The last ones: the others are there when a step begins. Some here, some there: transfers are spread
// over the calls. The largest: the fewest transfers. In each, those that would have to come in twice go late, and small
// ones last.
std::vector<WeightSearch::Order> WeightSearch::orders() const {
  Order late(candidates_.size());
  std::iota(late.rbegin(), late.rend(), std::size_t{0});
  Order large = late;
  std::stable_sort(large.begin(), large.end(),
                   [&](std::size_t a, std::size_t b) { return candidates_[a].bytes > candidates_[b].bytes; });
  std::vector<Order> out = {late, spread(candidates_.size()), large};
  const auto rank = [&](std::size_t i) {
    const Candidate& c = candidates_[i];
    return c.bytes < kWorthwhile ? 2 : c.moved_bytes > c.bytes ? 1 : 0;
  };
  for (Order& order : out) {
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return rank(a) < rank(b); });
  }
  return out;
}

// None ahead; one, beside the one that is waited for; and more.
std::vector<std::int64_t> WeightSearch::flights() const {
  if (!p_.link.is_ahead) return {0};
  std::int64_t largest = 0;
  for (const Candidate& c : candidates_) largest = std::max(largest, c.bytes);
  return {0, 1, largest, 4 * largest};
}

WeightsOutside WeightSearch::outside_of(const Choice& choice) const {
  WeightsOutside out{.flight_bytes = choice.flight_bytes, .link = p_.link};
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (choice.is_outside[i]) out.names.push_back(p_.graph.at(candidates_[i].id).name);
  }
  return out;
}

bool WeightSearch::fits(const Choice& choice, std::int64_t budget) const {
  const Decisions decisions = with_weights_outside({}, p_.graph, outside_of(choice));
  return footprint(p_.graph, views_, p_.costs, decisions).bytes <= budget;
}

WeightSearch::Choice WeightSearch::first_of(const Order& order, std::size_t count, std::int64_t flight) const {
  Choice out{.is_outside = std::vector<bool>(candidates_.size()), .flight_bytes = flight};
  for (std::size_t i = 0; i < count; ++i) out.is_outside[order[i]] = true;
  return out;
}

// By live bytes alone, without packing. None: too much is on its way.
std::optional<WeightSearch::Choice> WeightSearch::least_outside(const Order& order, std::int64_t flight,
                                                                std::int64_t budget) const {
  std::size_t low = 0;
  std::size_t high = order.size() + 1;
  while (low < high) {
    const std::size_t count = low + (high - low) / 2;
    if (count > order.size() || fits(first_of(order, count, flight), budget)) {
      high = count;
    } else {
      low = count + 1;
    }
  }
  if (low > order.size()) return std::nullopt;
  return first_of(order, low, flight);
}

// An order takes some that need not be outside any more once others are.
void WeightSearch::bring_back(Choice& choice, std::int64_t budget) const {
  Order most(candidates_.size());
  std::iota(most.begin(), most.end(), std::size_t{0});
  std::stable_sort(most.begin(), most.end(), [&](std::size_t a, std::size_t b) {
    return candidates_[a].moved_bytes > candidates_[b].moved_bytes;
  });
  for (const std::size_t i : most) {
    if (!choice.is_outside[i]) continue;
    choice.is_outside[i] = false;
    if (!fits(choice, budget)) choice.is_outside[i] = true;
  }
}

// What the budget has left is room for more on its way.
void WeightSearch::widen_flight(Choice& choice, std::int64_t budget) const {
  std::int64_t all = 0;
  for (const Candidate& c : candidates_) all += c.moved_bytes;
  for (std::int64_t step = all; step >= kWorthwhile; step /= 2) {
    Choice wider = choice;
    wider.flight_bytes += step;
    if (wider.flight_bytes <= all && fits(wider, budget)) choice = std::move(wider);
  }
}

WeightSearch::Timed WeightSearch::timed(Choice choice, std::int64_t budget) const {
  Timed out{.choice = std::move(choice)};
  Costs costs = p_.costs;
  costs.first_fit = true;  // where blocks lie matters little here
  const Plan plan = plan_with_weights_outside(p_.graph, costs, outside_of(out.choice), budget + budget / 16);
  out.ms = simulate(plan, costs, p_.link).ms;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (out.choice.is_outside[i]) out.moved_bytes += candidates_[i].moved_bytes;
  }
  return out;
}

std::vector<WeightSearch::Timed> WeightSearch::by_time(std::int64_t budget) const {
  std::vector<Timed> out;
  for (const Order& order : orders()) {
    for (const std::int64_t flight : flights()) {
      std::optional<Choice> choice = least_outside(order, flight, budget);
      if (!choice) continue;
      bring_back(*choice, budget);
      if (flight > 0) widen_flight(*choice, budget);
      out.push_back(timed(std::move(*choice), budget));
    }
  }
  std::stable_sort(out.begin(), out.end(), [](const Timed& a, const Timed& b) {
    return a.ms != b.ms ? a.ms < b.ms : a.moved_bytes < b.moved_bytes;
  });
  return out;
}

WeightPlan WeightSearch::planned(const Choice& choice, std::int64_t budget) const {
  WeightPlan out{.outside = outside_of(choice), .plan = {}};
  out.plan = plan_with_weights_outside(p_.graph, p_.costs, out.outside, budget);
  out.outside.names = slot_names(out.plan, p_.graph);
  return out;
}

WeightPlan WeightSearch::smallest() const {
  const Order order = orders().front();
  const auto large = static_cast<std::size_t>(
      std::count_if(order.begin(), order.end(), [&](std::size_t i) { return candidates_[i].bytes >= kWorthwhile; }));
  WeightPlan out = planned(first_of(order, 0, 0), 0);
  for (const std::size_t count : {large, order.size()}) {
    WeightPlan other = planned(first_of(order, count, 0), 0);
    if (other.plan.peak_bytes < out.plan.peak_bytes) out = std::move(other);
  }
  return out;
}

std::optional<WeightPlan> WeightSearch::fastest(std::int64_t budget) const {
  constexpr int kMisses = 4;  // packing is a hair above the bound
  WeightPlan kept = planned(first_of(orders().front(), 0, 0), budget);
  if (kept.plan.peak_bytes <= budget) return kept;
  std::int64_t reckoned = budget;
  for (int miss = 0; miss < kMisses; ++miss) {
    const std::vector<Timed> found = by_time(reckoned);
    if (found.empty()) break;
    WeightPlan best = planned(found.front().choice, budget);
    if (best.plan.peak_bytes <= budget) return best;
    reckoned -= best.plan.peak_bytes - budget;
  }
  WeightPlan least = smallest();
  if (least.plan.peak_bytes > budget) return std::nullopt;
  least.plan = plan_with_weights_outside(p_.graph, p_.costs, least.outside, budget);
  return least;
}

}  // namespace neap
