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

Plan plan_of(const PlanningProblem& p, const Decisions& decisions) {
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

// The fewest of the order that do. More spilled is not always less at the peak, so what is returned was planned, not
// inferred.
template <class PlanWith>
std::optional<Plan> fewest(std::int64_t budget, std::size_t most, const PlanWith& plan_with) {
  std::size_t low = 0;
  std::size_t high = most;
  std::optional<Plan> fitting;
  while (low <= high) {
    const std::size_t count = low + (high - low) / 2;
    Plan plan = plan_with(count);
    if (plan.peak_bytes > budget) {
      low = count + 1;
      continue;
    }
    fitting = std::move(plan);
    if (count == 0) break;
    high = count - 1;
  }
  return fitting;
}

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
    const std::vector<TensorId> order = spill_order(p.graph, p.costs);
    std::optional<Plan> best;
    double best_ms = std::numeric_limits<double>::infinity();
    for (const bool early : {false, true}) {
      for (const std::int64_t flight : kFlights) {
        std::optional<Plan> plan = fewest(budget, order.size(), [&](std::size_t count) {
          Decisions decisions = spill_first(p.graph, order, count, flight, p.link);
          decisions.early_updates = early;
          return plan_of(p, decisions);
        });
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
