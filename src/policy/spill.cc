#include "policy/spill.h"

#include <algorithm>

#include "core/bytes.h"
#include "graph/op.h"
#include "plan/loose_transfers.h"
#include "plan/order.h"
#include "plan/schedule.h"
#include "plan/simulate.h"
#include "plan/spills.h"

namespace neap {
namespace {

constexpr std::int64_t kWorthwhile = 64 * kKiB;  // below this a transfer is all latency

// How much may be on its way: the more, the fewer stalls and the less room.
constexpr std::int64_t kFlights[] = {256 * kMiB, 64 * kMiB, 16 * kMiB, 4 * kMiB, 0};

constexpr double kLead = 2;  // where there is room for it: calls may be faster than they were, and disks slower

Plan plan_of(const PlanningProblem& p, Decisions decisions) {
  decisions.levels = levels_of(p);
  return std::get<Plan>(make_plan(p.graph, p.costs, decisions, kNoBudget, p.layout));
}

// A tensor's wait between forward and backward.
struct Wait {
  bool is_of_forward = false;
  Tick last_forward = 0;
  Tick first_backward = 0;  // 0: backward does not read it
};

std::vector<Wait> waits_of(const Graph& graph, const Schedule& schedule) {
  std::vector<Wait> out(schedule.instances.size());
  const auto at = [&](std::int32_t i) -> Wait& { return out[static_cast<std::size_t>(i)]; };
  for (Tick t = 0; t < schedule.calls.size(); ++t) {
    const Call& call = schedule.calls[t];
    const bool late = is_late(graph, call);
    for (const std::int32_t i : call.inputs) {
      if (i == kAbsent) continue;
      if (!late) at(i).last_forward = t;
      if (late && at(i).first_backward == 0) at(i).first_backward = t;
    }
    for (const std::int32_t i : call.outputs) {
      if (i != kAbsent && !late) at(i) = {.is_of_forward = true, .last_forward = t};
    }
  }
  return out;
}

// A part lies in the whole's block, which stays: only the whole is worth a transfer.
std::vector<bool> find_parts(const Graph& graph, const std::vector<Window>& views) {
  std::vector<bool> out(graph.tensors.size());
  for (const Node& node : graph.nodes) {
    if (node.op->part_offset == nullptr) continue;
    for (const TensorId id : node.inputs) {
      if (id) out[views[id.index].root.index] = true;
    }
  }
  return out;
}

}  // namespace

std::vector<bool> find_spillable(const Graph& graph, const std::vector<Window>& views) {
  std::vector<bool> out = find_parts(graph, views);
  for (std::uint32_t i = 0; i < out.size(); ++i) {
    const bool is_part = out[i];
    out[i] = !is_part && can_spill(graph, views, {i}) && graph.at(TensorId{i}).type.bytes() >= kWorthwhile;
  }
  return out;
}

namespace {

// The longest wait of each tensor between two uses, or between its first run and a use.
std::vector<std::pair<Tick, TensorId>> longest_waits(const Schedule& schedule) {
  std::vector<Tick> last(schedule.instances.size());
  std::vector<Tick> longest(schedule.instances.size());
  std::vector<bool> is_first(schedule.instances.size());
  for (Tick t = 0; t < schedule.calls.size(); ++t) {
    const Call& call = schedule.calls[t];
    for (const std::int32_t i : call.inputs) {
      if (i == kAbsent) continue;
      const auto at = static_cast<std::size_t>(i);
      longest[at] = std::max(longest[at], t - last[at]);
      last[at] = t;
    }
    for (const std::int32_t i : call.outputs) {
      if (i == kAbsent) continue;
      last[static_cast<std::size_t>(i)] = t;
      longest[static_cast<std::size_t>(i)] = 0;
      is_first[static_cast<std::size_t>(i)] = call.action == Action::kRun;
    }
  }
  std::vector<std::pair<Tick, TensorId>> out;
  for (std::size_t i = 0; i < longest.size(); ++i) {
    if (is_first[i] && longest[i] > 1) out.emplace_back(longest[i], schedule.instances[i].root);
  }
  return out;
}

// Those with the longest wait first.
std::vector<TensorId> by_wait(std::vector<std::pair<Tick, TensorId>> found) {
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<TensorId> order;
  for (const auto& [wait, id] : found) order.push_back(id);
  return order;
}

// For Decisions::every_wait_above, whose plans change state early.
std::vector<TensorId> every_wait_order(const Graph& graph, const Costs& costs, Decisions base) {
  base.early_updates = true;
  const std::vector<Window> views = find_views(graph);
  const std::vector<bool> is_part = find_parts(graph, views);
  auto found = longest_waits(make_schedule(graph, views, base, costs));
  std::erase_if(found, [&](const auto& each) {
    const TensorId id = each.second;
    return is_part[id.index] || !can_leave(graph, views, id) || graph.at(id).type.bytes() < kWorthwhile;
  });
  return by_wait(std::move(found));
}

}  // namespace

std::vector<TensorId> spill_order(const Graph& graph, const Costs& costs, const Decisions& base) {
  const std::vector<Window> views = find_views(graph);
  const std::vector<bool> is_spillable = find_spillable(graph, views);
  const Schedule schedule = make_schedule(graph, views, base, costs);
  const std::vector<Wait> waits = waits_of(graph, schedule);
  std::vector<std::pair<Tick, TensorId>> found;
  for (std::size_t i = 0; i < waits.size(); ++i) {
    const TensorId id = schedule.instances[i].root;
    if (!waits[i].is_of_forward || waits[i].first_backward == 0 || !is_spillable[id.index]) continue;
    found.emplace_back(waits[i].first_backward - waits[i].last_forward, id);
  }
  return by_wait(std::move(found));
}

Decisions spill_first(Decisions base, const Graph& graph, const std::vector<TensorId>& order, std::size_t count,
                      std::int64_t flight_bytes, const Link& link) {
  base.residency.resize(graph.tensors.size(), Residency::kKeep);
  for (std::size_t i = 0; i < std::min(count, order.size()); ++i) base.residency[order[i].index] = Residency::kSpill;
  base.flight_bytes = link.is_ahead ? flight_bytes : 0;
  base.link = link;
  return base;
}

SpillSearch::SpillSearch(const PlanningProblem& problem, Decisions base, std::span<const TensorId> first)
    : p_(problem),
      base_(std::move(base)),
      views_(find_views(problem.graph)),
      order_(spill_order(problem.graph, problem.costs, base_)),
      every_order_(every_wait_order(problem.graph, problem.costs, base_)) {
  base_.levels = levels_of(problem);
  const auto is_first = [&](TensorId id) { return std::ranges::find(first, id) != first.end(); };
  for (std::vector<TensorId>* each : {&order_, &every_order_}) std::ranges::stable_partition(*each, is_first);
}

std::int64_t SpillSearch::stored_bytes(TensorId id) const {
  const TensorType& type = p_.graph.at(id).type;
  const precision::Level level = level_of(p_, id);
  return level == precision::Level::kFp32 ? type.bytes() : precision::encoded_bytes(level, type.elements());
}

Decisions SpillSearch::decisions(std::size_t count, std::int64_t flight, Way way) const {
  Decisions out = spill_first(base_, p_.graph, order(way), count, flight, p_.link);
  out.early_updates = way.early;
  out.every_wait_above = way.every_wait_above;
  return out;
}

Plan SpillSearch::smallest() const {
  std::optional<Plan> best;
  for (const Way way : kWays) {
    if (!way.early) continue;
    if (best && has_rounding(p_)) break;  // rounded tensors leave between forward and backward only
    Plan plan = plan_of(p_, decisions(order(way).size(), 0, way));
    if (!best || plan.peak_bytes < best->peak_bytes) best = std::move(plan);
  }
  return std::move(*best);
}

std::optional<TimedPlan> SpillSearch::fastest(std::int64_t budget) const {
  std::optional<TimedPlan> best;
  for (const Way way : kWays) {
    if (way.every_wait_above > 0 && has_rounding(p_)) break;
    for (const std::int64_t flight : kFlights) {
      std::optional<Plan> plan = plan_with(flight, way, budget);
      if (!plan) continue;
      const double ms = simulate(*plan, p_.costs, p_.link).ms;
      if (!best || ms < best->ms) best = TimedPlan{std::move(*plan), ms};
    }
    if (best) break;
  }
  return best;
}

// Spilling the fewest of the order with so much on its way; none: too much stays, or the disk has no room.
std::optional<Plan> SpillSearch::plan_with(std::int64_t flight, Way way, std::int64_t budget) const {
  constexpr int kMisses = 8;  // packing is a hair above the bound, or the state lies elsewhere than reckoned
  std::size_t count = fewest(flight, way, budget);
  for (int miss = 0; miss < kMisses && count <= order(way).size(); ++miss, ++count) {
    if (!has_room(count, way)) return std::nullopt;
    Plan plan = plan_of(p_, decisions(count, flight, way));
    if (plan.peak_bytes <= budget)
      return with_loose_transfers(std::move(plan), p_.costs, p_.link, kLead * p_.link.lead, budget);
  }
  return std::nullopt;
}

// By live bytes alone, without packing. More than there are: none does. More spilled is not always less at the peak, so
// what this says is planned before it is believed.
std::size_t SpillSearch::fewest(std::int64_t flight, Way way, std::int64_t budget) const {
  std::size_t low = 0;
  const std::size_t all = order(way).size();
  std::size_t high = all + 1;
  while (low < high) {
    const std::size_t count = low + (high - low) / 2;
    const bool fits =
        count <= all && footprint(p_.graph, views_, p_.costs, decisions(count, flight, way)).bytes <= budget;
    if (count > all || fits) {
      high = count;
    } else {
      low = count + 1;
    }
  }
  return low;
}

// Plans whose step cannot be run again keep two copies of what they spill.
bool SpillSearch::has_room(std::size_t count, Way way) const {
  if (p_.link.room_bytes < 0) return true;
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < count; ++i) bytes += align_up(stored_bytes(order(way)[i]), kPage);
  return bytes * (way.early ? 2 : 1) <= p_.link.room_bytes;
}

std::optional<TimedPlan> spilled_anew(const PlanningProblem& problem, const Plan& plan, std::int64_t budget) {
  Decisions base;
  base.order = order_of(plan, problem.graph);
  return SpillSearch(problem, std::move(base)).fastest(budget);
}

namespace {

class Spill final : public Policy {
 public:
  std::string_view name() const override { return "spill"; }
  std::optional<PolicyRule> rule() const override {
    return PolicyRule{Means::kSpill, "moves out first what waits longest for backward"};
  }

  Plan smallest(const PlanningProblem& p) const override {
    Plan spilled = SpillSearch(p, store_all(p.graph)).smallest();
    Plan kept = plan_of(p, store_all(p.graph));
    return spilled.peak_bytes < kept.peak_bytes ? spilled : kept;
  }

  std::optional<Plan> within(const PlanningProblem& p, std::int64_t budget) const override {
    Plan kept = plan_of(p, store_all(p.graph));
    if (kept.peak_bytes <= budget) return kept;
    std::optional<TimedPlan> best = SpillSearch(p, store_all(p.graph)).fastest(budget);
    return best ? std::optional(std::move(best->plan)) : std::nullopt;
  }
};

}  // namespace

const Policy& spill_policy() {
  static const Spill policy;
  return policy;
}

}  // namespace neap
