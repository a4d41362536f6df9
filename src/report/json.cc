#include "report/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace neap {
namespace {

Json optional_bytes(const std::optional<std::int64_t>& bytes) { return bytes ? Json(*bytes) : Json(nullptr); }

// JSON has no NaN and no infinity.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
Json number(const std::optional<double>& value) { return value ? number(*value) : Json(nullptr); }
// A time of 0 stands for one that is not known.
Json known_ms(double ms) { return ms > 0 ? number(ms) : Json(nullptr); }

// Bytes by kind over the step. Of a long step the fullest instruction of every few.
Json memory_json(const PlanReport& r) {
  constexpr std::size_t kColumns = 240;
  const std::size_t ticks = r.live_bytes.size();
  const std::size_t columns = std::min(kColumns, ticks);
  std::vector<std::size_t> fullest;
  for (std::size_t c = 0; c < columns; ++c) {
    const auto first = r.live_bytes.begin() + static_cast<std::ptrdiff_t>(c * ticks / columns);
    const auto end = r.live_bytes.begin() + static_cast<std::ptrdiff_t>((c + 1) * ticks / columns);
    fullest.push_back(static_cast<std::size_t>(std::max_element(first, end) - r.live_bytes.begin()));
  }
  Json kinds = Json::object();
  for (const auto& [label, live] : r.live_parts) {
    Json bytes = Json::array();
    for (const std::size_t tick : fullest) bytes.push_back(live[tick]);
    kinds[label] = std::move(bytes);
  }
  return {{"instructions", ticks},
          {"backward_begins", r.backward_begins},
          {"peak_layer", r.peak_layer},
          {"at", fullest},
          {"kinds", std::move(kinds)}};
}

}  // namespace

Json to_json(const StepReport& r) {
  Json out = {{"step", r.step},
              {"loss", number(r.loss)},
              {"loss_hex", fmt::format("{:08x}", std::bit_cast<std::uint32_t>(r.loss))},
              {"step_ms", r.step_ms},
              {"batch", r.batch},
              {"length", r.length},
              {"tokens", r.tokens},
              {"peak_bytes", r.peak_bytes},
              {"budget_bytes", optional_bytes(r.budget_bytes)},
              {"spilled_bytes", r.spilled_bytes},
              {"transfer_ms", r.transfer_ms},
              {"stalled_ms", r.stalled_ms},
              {"link_busy_ms", r.link_busy_ms},
              {"compute_busy_ms", r.compute_busy_ms},
              {"overlap_ms", r.overlap_ms},
              {"compute_ms", r.compute_ms},
              {"recomputed_ms", r.recomputed_ms},
              {"predicted_ms", known_ms(r.predicted_ms)},
              {"simulated_ms", r.simulated_ms},
              {"simulated_peak_bytes", r.simulated_peak_bytes},
              {"plan_id", r.plan},
              {"encoded_bytes", r.encoded_bytes}};
  if (!r.note.empty()) out["note"] = r.note;
  if (!r.tuning.empty()) out["tuning"] = r.tuning;
  return out;
}

namespace {

Json to_json(const RecurrentReport& r) {
  return {{"layer", r.layer},
          {"gear", r.gear},
          {"gates", r.gates},
          {"forward_us_per_step", r.forward_us},
          {"backward_us_per_step", r.backward_us},
          {"saved_bytes", r.saved_bytes},
          {"workspace_bytes", r.workspace_bytes},
          {"utilisation", number(r.utilisation)},
          {"miss_rate", number(r.miss_rate)},
          {"miss_source", r.miss_source},
          {"choices", r.choices},
          {"switches", r.switches}};
}

Json loops_of(const TuningReport& r) {
  Json loops = Json::array();
  for (const TuningReport::Loop& l : r.loops) {
    loops.push_back({{"call", l.name}, {"factor", l.factor}, {"factors", l.factors}, {"ms", l.ms}});
  }
  return loops;
}

Json to_json(const TuningReport& r) {
  Json pieces = Json::array();
  for (const TuningReport::Piece& p : r.pieces) {
    pieces.push_back({{"subgraph", p.name},
                      {"strategy", p.strategy},
                      {"bound", p.bound},
                      {"ms", p.ms},
                      {"roofline", p.roofline},
                      {"bandwidth", p.bandwidth},
                      {"transferred_bytes", p.transferred_bytes}});
  }
  return {{"trials", r.trials},           {"adopted", r.adopted},     {"changes", r.changes},
          {"drifts", r.drifts},           {"overruled", r.overruled}, {"spent_ms", r.spent_ms},
          {"spent_share", r.spent_share}, {"rejected", r.rejected},   {"subgraphs", std::move(pieces)}};
}

}  // namespace

Json to_json(const Summary& s) {
  Json recurrent = Json::array();
  for (const RecurrentReport& r : s.recurrent) recurrent.push_back(to_json(r));
  const bool has_run = s.median_step_ms > 0;
  Json stored = Json::array();
  for (const StoredTensorReport& t : s.stored) {
    stored.push_back({{"name", t.name},
                      {"layer", t.layer},
                      {"level", t.level},
                      {"error", number(t.error)},
                      {"sensitivity", number(t.sensitivity)},
                      {"mean", number(t.mean)},
                      {"deviation", number(t.deviation)},
                      {"entropy", number(t.entropy)},
                      {"outliers", t.outliers}});
  }
  return {{"summary", true},
          {"model", s.model},
          {"device", s.device},
          {"policy", s.policy},
          {"steps", s.steps},
          {"batch", s.batch},
          {"accumulate", s.parts},
          {"split", s.split},
          {"budget_bytes", optional_bytes(s.budget_bytes)},
          {"largest_budget_bytes", optional_bytes(s.largest_budget_bytes)},
          {"peak_bytes", s.peak_bytes},
          {"store_all_bytes", s.store_all_bytes},
          {"state_bytes", s.state_bytes},
          {"min_budget_bytes", s.min_budget_bytes},
          {"violations", s.violations},
          {"median_step_ms", known_ms(s.median_step_ms)},
          {"predicted_step_ms", s.predicted_step_ms},
          {"link_busy_ms", s.link_busy_ms},
          {"compute_busy_ms", s.compute_busy_ms},
          {"overlap_ms", s.overlap_ms},
          {"busy_source", s.busy_source},
          {"steering_share", s.steering_share},
          {"steering_bytes", s.steering_bytes},
          {"rss_peak_bytes", s.rss_peak_bytes},
          {"planning_ms", s.planning_ms},
          {"planning_wait_ms", s.planning_wait_ms},
          {"plan_swaps", s.plan_swaps},
          {"replays", s.replays},
          {"saved_bytes", s.saved_bytes},
          {"exact_saved_bytes", s.exact_saved_bytes},
          {"encoding_error", number(s.encoding_error)},
          {"kept_exact", s.kept_exact},
          {"stored", stored},
          {"numerics_id", s.numerics_id},
          {"context_bytes", s.context_bytes},
          {"loss_last", has_run ? number(s.loss_last) : Json(nullptr)},
          {"weights_hash", s.weights_hash},
          {"recurrent", std::move(recurrent)},
          {"tuning", s.tuning.pieces.empty() ? Json(nullptr) : to_json(s.tuning)},
          {"loops", loops_of(s.tuning)}};
}

Json to_json(const PlanReport& r) {
  Json layers = Json::array();
  for (const PlanReport::Layer& l : r.layers) {
    layers.push_back({{"name", l.name},
                      {"action", l.action},
                      {"kept_bytes", l.kept_bytes},
                      {"precision", l.precision},
                      {"error", number(l.error)},
                      {"reason", l.reason},
                      {"freed_bytes", l.freed_bytes},
                      {"added_ms", l.added_ms}});
  }
  return {{"feasible", r.feasible},
          {"budget_bytes", optional_bytes(r.budget_bytes)},
          {"min_budget_bytes", r.min_budget_bytes},
          {"peak_bytes", r.peak_bytes},
          {"arena_bytes", r.arena_bytes},
          {"lower_bound_bytes", r.lower_bound_bytes},
          {"outside_bytes", r.outside_bytes},
          {"store_all_bytes", r.store_all_bytes},
          {"state_bytes", r.state_bytes},
          {"predicted_step_ms", r.predicted_step_ms},
          {"planning_ms", r.planning_ms},
          {"layers", layers},
          {"memory", memory_json(r)}};
}

Json to_json(const LayerReport& r) {
  return {{"name", r.name},
          {"forward_ms", r.forward_ms},
          {"backward_ms", r.backward_ms},
          {"update_ms", r.update_ms},
          {"gflop", r.gflop},
          {"traffic_bytes", r.traffic_bytes},
          {"saved_bytes", r.saved_bytes},
          {"parameter_bytes", r.parameter_bytes},
          {"bound", r.bound}};
}

Json to_json(const KernelReport& r) {
  return {{"kernel", r.kernel}, {"node", r.node}, {"op", r.op},
          {"layer", r.layer},   {"ms", r.ms},     {"launches", r.launches}};
}

Json to_json(const EvalReport& r) {
  return {{"loss", number(r.loss)},
          {"accuracy", number(r.accuracy)},
          {"perplexity", number(r.perplexity)},
          {"samples", r.samples}};
}

}  // namespace neap
