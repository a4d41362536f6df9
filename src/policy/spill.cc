#include "policy/spill.h"

#include <algorithm>
#include <limits>

#include "core/bytes.h"
#include "graph/op.h"
#include "plan/schedule.h"
#include "plan/simulate.h"
#include "policy/policy.h"

namespace neap {
namespace {

constexpr std::int64_t kWorthwhile = 64 * kKiB;  // below this a transfer is all latency

// How much may be on its way: the more, the fewer stalls and the less room.
constexpr std::int64_t kFlights[] = {256 * kMiB, 64 * kMiB, 16 * kMiB, 0};

Plan plan_of(const PlanningProblem& p, Decisions decisions) {
  decisions.levels = levels_of(p);
  return std::get<Plan>(make_plan(p.graph, p.costs, decisions, kNoBudget, p.layout));
}

}  // namespace

std::vector<TensorId> spill_order(const Graph& graph, const Costs& costs) {
  const Decisions base = store_all(graph);
  const std::vector<Window> views = find_views(graph);
  const Schedule schedule = make_schedule(graph, views, base, costs);
  struct Life {
    Tick last_forward = 0;
    Tick first_backward = 0;
  };
  std::vector<Life> lives(graph.tensors.size());
  const auto note = [&](const std::vector<std::int32_t>& instances, Tick t, bool is_forward) {
    for (const std::int32_t i : instances) {
      if (i == kAbsent) continue;
      Life& life = lives[schedule.instances[static_cast<std::size_t>(i)].root.index];
      if (is_forward) life.last_forward = t;
      if (!is_forward && life.first_backward == 0) life.first_backward = t;
    }
  };
  for (Tick t = 0; t < schedule.calls.size(); ++t) {
    const Call& call = schedule.calls[t];
    const bool is_forward = graph.at(call.node).phase == Phase::kForward && call.action == Action::kRun;
    note(call.inputs, t, is_forward);
    if (is_forward) note(call.outputs, t, true);
  }
  // A part lies in the whole's block, which stays: only the whole is worth a transfer.
  std::vector<bool> is_part(graph.tensors.size());
  for (const Node& node : graph.nodes) {
    if (node.op->part_offset == nullptr) continue;
    for (const TensorId id : node.inputs) {
      if (id) is_part[views[id.index].root.index] = true;
    }
  }
  std::vector<TensorId> order;
  for (std::uint32_t i = 0; i < graph.tensors.size(); ++i) {
    const bool is_kept = base.residency[i] == Residency::kKeep && lives[i].first_backward > 0 && !is_part[i];
    if (is_kept && can_spill(graph, views, {i}) && graph.tensors[i].type.bytes() >= kWorthwhile) order.push_back({i});
  }
  std::stable_sort(order.begin(), order.end(), [&](TensorId a, TensorId b) {
    return lives[a.index].first_backward - lives[a.index].last_forward >
           lives[b.index].first_backward - lives[b.index].last_forward;
  });
  return order;
}

Decisions spill_first(const Graph& graph, const std::vector<TensorId>& order, std::size_t count,
                      std::int64_t flight_bytes, const Link& link) {
  Decisions out = store_all(graph);
  for (std::size_t i = 0; i < std::min(count, order.size()); ++i) out.residency[order[i].index] = Residency::kSpill;
  out.flight_bytes = flight_bytes;
  out.link = link;
  return out;
}

namespace {

// What one search for a plan knows.
class SpillSearch {
 public:
  SpillSearch(const PlanningProblem& problem, std::int64_t budget)
      : p_(problem),
        budget_(budget),
        views_(find_views(problem.graph)),
        order_(spill_order(problem.graph, problem.costs)),
        base_(store_all(problem.graph)) {}

  // Spilling the fewest of the order with so much on its way; none: too much stays, or the disk has no room.
  std::optional<Plan> plan_with(std::int64_t flight, bool early) {
    constexpr int kMisses = 8;  // packing is a hair above the bound, or the state lies elsewhere than reckoned
    std::size_t count = fewest(flight, early);
    for (int miss = 0; miss < kMisses && count <= order_.size(); ++miss, ++count) {
      if (!has_room(count, early)) return std::nullopt;
      Plan plan = plan_of(p_, decisions(count, flight, early));
      if (plan.peak_bytes <= budget_) return plan;
    }
    return std::nullopt;
  }

 private:
  Decisions decisions(std::size_t count, std::int64_t flight, bool early) const {
    Decisions out = base_;
    for (std::size_t i = 0; i < count; ++i) out.residency[order_[i].index] = Residency::kSpill;
    out.flight_bytes = flight;
    out.link = p_.link;
    out.early_updates = early;
    out.levels = levels_of(p_);
    return out;
  }

  // By live bytes alone, without packing. More than there are: none does. More spilled is not always less at the peak,
  // so what this says is planned before it is believed.
  std::size_t fewest(std::int64_t flight, bool early) const {
    std::size_t low = 0;
    std::size_t high = order_.size() + 1;
    while (low < high) {
      const std::size_t count = low + (high - low) / 2;
      const bool fits = count <= order_.size() &&
                        footprint(p_.graph, views_, p_.costs, decisions(count, flight, early)).bytes <= budget_;
      if (count > order_.size() || fits) {
        high = count;
      } else {
        low = count + 1;
      }
    }
    return low;
  }

  std::int64_t stored_bytes(TensorId id) const {
    const TensorType& type = p_.graph.at(id).type;
    const bool has_level = p_.levels != nullptr && id.index < p_.levels->of.size();
    const precision::Level level = has_level ? p_.levels->of[id.index] : precision::Level::kFp32;
    return level == precision::Level::kFp32 ? type.bytes() : precision::encoded_bytes(level, type.elements());
  }

  // Plans whose step cannot be run again keep two copies of what they spill.
  bool has_room(std::size_t count, bool early) const {
    if (p_.link.room_bytes < 0) return true;
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < count; ++i) bytes += align_up(stored_bytes(order_[i]), kPage);
    return bytes * (early ? 2 : 1) <= p_.link.room_bytes;
  }

  const PlanningProblem& p_;
  std::int64_t budget_;
  std::vector<Window> views_;
  std::vector<TensorId> order_;
  Decisions base_;
};

class Spill final : public Policy {
 public:
  std::string_view name() const override { return "spill"; }

  // Everything that can leave does, one transfer at a time, and weights change early.
  Plan smallest(const PlanningProblem& p) const override {
    const std::vector<TensorId> order = spill_order(p.graph, p.costs);
    Decisions all = spill_first(p.graph, order, order.size(), 0, p.link);
    all.early_updates = true;
    Plan spilled = plan_of(p, all);
    Plan kept = plan_of(p, store_all(p.graph));
    return spilled.peak_bytes < kept.peak_bytes ? spilled : kept;
  }

  // The fastest as the simulator sees it. Plans whose step can be run again come first.
  std::optional<Plan> within(const PlanningProblem& p, std::int64_t budget) const override {
    Plan kept = plan_of(p, store_all(p.graph));
    if (kept.peak_bytes <= budget) return kept;
    SpillSearch search(p, budget);
    std::optional<Plan> best;
    double best_ms = std::numeric_limits<double>::infinity();
    for (const bool early : {false, true}) {
      for (const std::int64_t flight : kFlights) {
        std::optional<Plan> plan = search.plan_with(flight, early);
        if (!plan) continue;
        const double ms = simulate(*plan, p.costs, p.link).ms;
        if (ms >= best_ms) continue;
        best_ms = ms;
        best = std::move(plan);
      }
      if (best) break;
    }
    return best;
  }
};

}  // namespace

const Policy& spill_policy() {
  static const Spill policy;
  return policy;
}

}  // namespace neap
