#include "pool/pool_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/bytes.h"
#include "graph/op.h"
#include "neap/error.h"
#include "plan/views.h"
#include "pool/pool_walk.h"
#include "pool/simple_predictors.h"

namespace neap {
namespace {

// Calls that change state go behind all others, so that a step whose spilled bytes are lost can be run again.
Schedule with_late_updates(const Graph& graph, Schedule schedule) {
  std::stable_partition(schedule.calls.begin(), schedule.calls.end(),
                        [&](const Call& call) { return !graph.at(call.node).op->side_effects(); });
  const auto end = static_cast<Tick>(schedule.calls.size());
  for (Instance& i : schedule.instances) {
    const bool stays = i.upper == end;  // state, and what the host reads
    i.lower = i.lower == 0 ? 0 : end;
    i.upper = stays ? end : std::min<Tick>(i.upper, 1);
  }
  std::vector<bool> is_leaf(schedule.instances.size());
  for (std::uint32_t t = 0; t < graph.tensors.size(); ++t) {
    const std::int32_t at = schedule.current[t];
    if (!graph.tensors[t].producer && at != kAbsent) is_leaf[static_cast<std::size_t>(at)] = true;
  }
  for (Tick t = 0; t < end; ++t) {
    for (const auto* list : {&schedule.calls[t].inputs, &schedule.calls[t].outputs}) {
      for (const std::int32_t i : *list) {
        if (i == kAbsent) continue;
        Instance& it = schedule.instances[static_cast<std::size_t>(i)];
        it.lower = is_leaf[static_cast<std::size_t>(i)] ? 0 : std::min(it.lower, t);
        it.upper = std::max(it.upper, t + 1);
      }
    }
  }
  return schedule;
}

// No plan does with less: the state, and the call that touches the most.
std::int64_t least_bytes(const Graph& graph, const Costs& costs, const Schedule& schedule, const Storage& storage) {
  std::int64_t state = 0;
  for (const Block& b : storage.blocks) state += b.kind == BlockKind::kState ? b.bytes : 0;
  std::int64_t most = 0;
  for (std::size_t c = 0; c < schedule.calls.size(); ++c) {
    if (storage.elided[c]) continue;
    const Call& call = schedule.calls[c];
    std::vector<std::int32_t> touched;
    for (const auto* list : {&call.inputs, &call.outputs}) {
      for (const std::int32_t i : *list) {
        if (i != kAbsent) touched.push_back(storage.placements[static_cast<std::size_t>(i)].block);
      }
    }
    std::sort(touched.begin(), touched.end());
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
    std::int64_t bytes = call.node.index < costs.workspace.size() ? align_up(costs.workspace[call.node.index]) : 0;
    for (const std::int32_t b : touched) {
      const Block& block = storage.blocks[static_cast<std::size_t>(b)];
      bytes += block.kind == BlockKind::kState ? 0 : block.bytes;
    }
    most = std::max(most, bytes);
  }
  return align_up(state) + most;
}

class Planner {
 public:
  Planner(const Graph& graph, const Costs& costs, LifetimePredictor& predictor, const PoolSettings& settings)
      : graph_(graph),
        costs_(costs),
        predictor_(predictor),
        settings_(settings),
        views_(find_views(graph)),
        schedule_(make_schedule(graph, views_, store_all(graph), costs)) {}

  PoolOutcome run() {
    PoolOutcome kept = attempt(schedule_, false);
    if (kept.plan || !settings_.may_spill || kept.minimum_bytes > settings_.capacity) return kept;
    PoolOutcome early = attempt(schedule_, true);
    PoolOutcome late = attempt(with_late_updates(graph_, schedule_), true);
    if (!late.plan) return early;
    const bool is_dear = early.plan && static_cast<double>(late.stats.spilled_bytes) >
                                           kReplayPrice * static_cast<double>(early.stats.spilled_bytes);
    return is_dear ? early : late;
  }

 private:
  // That a step can be run again when spilled bytes are lost is worth this many times the transfers.
  static constexpr double kReplayPrice = 1.25;

  PoolOutcome attempt(const Schedule& calls, bool may_spill) {
    PoolOutcome out;
    const Storage storage = assign_storage(graph_, calls, views_);
    out.minimum_bytes = least_bytes(graph_, costs_, calls, storage);
    if (settings_.capacity < out.minimum_bytes) {
      out.reason = fmt::format("{} are given, and no plan does with less than {} ({} bytes)",
                               human_bytes(settings_.capacity), human_bytes(out.minimum_bytes), out.minimum_bytes);
      return out;
    }
    out.events = events_of(graph_, calls, storage, settings_.length);
    std::vector<Lifetime> lifetimes(out.events.events.size());
    if (auto* informed = dynamic_cast<InformedPredictor*>(&predictor_)) informed->inform(out.events.lifespans);
    predictor_.predict(out.events.events, lifetimes);
    WalkResult walk = walk_with_pool({.graph = graph_,
                                      .costs = costs_,
                                      .schedule = calls,
                                      .storage = storage,
                                      .events = out.events,
                                      .lifetimes = lifetimes,
                                      .settings = settings_,
                                      .may_spill = may_spill});
    out.plan = std::move(walk.plan);
    out.reason = std::move(walk.reason);
    out.stats = walk.stats;
    return out;
  }

  const Graph& graph_;
  const Costs& costs_;
  LifetimePredictor& predictor_;
  const PoolSettings& settings_;
  std::vector<Window> views_;
  Schedule schedule_;
};

}  // namespace

PoolOutcome plan_with_pool(const Graph& graph, const Costs& costs, LifetimePredictor& predictor,
                           const PoolSettings& settings) {
  return Planner(graph, costs, predictor, settings).run();
}

std::optional<Plan> pool_plan(const Graph& graph, const Costs& costs, LifetimePredictor& predictor,
                              std::int64_t capacity, const StateLayout* layout, std::int64_t length) {
  return plan_with_pool(graph, costs, predictor, {.capacity = capacity, .layout = layout, .length = length}).plan;
}

}  // namespace neap
