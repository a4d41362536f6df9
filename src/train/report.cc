// What a plan does, for people: layer by layer, over time, and at its fullest moment.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "core/bytes.h"
#include "graph/op.h"
#include "plan/simulate.h"
#include "policy/layers.h"
#include "train/setup.h"
#include "train/spilling.h"

namespace neap {
namespace {

class LayerReports {
 public:
  LayerReports(const Setup& setup, const Plan& plan, const Recompute& r)
      : store_all_bytes_(setup.store_all_bytes),
        levels_(setup.levels.get()),
        plan_(plan),
        r_(r),
        layers_(find_layers(r)),
        layer_of_(graph().nodes.size(), layers_.size()) {
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      for (const NodeId id : layers_[i].nodes) layer_of_[id.index] = i;
    }
    rows_.resize(layers_.size() + 1);  // the last is for what is in no layer
    count();
  }

  std::vector<PlanReport::Layer> run() const {
    std::vector<PlanReport::Layer> out;
    for (std::size_t i = 0; i < layers_.size();) {
      std::size_t end = i + 1;
      while (end < layers_.size() && is_joined(end - 1) && is_made_again(end)) ++end;
      for (std::size_t k = i; k < end; ++k) out.push_back(describe(k, end - i));
      i = end;
    }
    return out;
  }

 private:
  struct Row {
    std::map<precision::Level, std::int64_t> levels;  // bytes kept in each
    double error = 0;
    std::int64_t kept = 0;
    std::int64_t spilled = 0;
    std::int64_t encoded = 0;  // bytes of the floats
    double again_ms = 0;
    int again = 0;    // nodes made again that store-all keeps
    int derived = 0;  // nodes made again that store-all makes again too
  };

  const Graph& graph() const { return r_.problem.graph; }

  void count() {
    for (const Block& b : plan_.blocks) {
      if (b.kind != BlockKind::kSaved || !b.tensor || !graph().at(b.tensor).producer) continue;
      Row& row = rows_[layer_of_[graph().at(b.tensor).producer.index]];
      row.kept += b.bytes;
      row.levels[b.level] += b.bytes;
    }
    for (const StoredTensorReport& t : levels_ != nullptr ? levels_->rows() : std::vector<StoredTensorReport>{}) {
      if (const auto id = graph().find(t.name)) rows_[layer_of_[graph().at(*id).producer.index]].error += t.error;
    }
    for (const Instruction& in : plan_.instructions) {
      Row& row = rows_[layer_of_[in.node.index]];
      if (in.action == Action::kSpillBegin) row.spilled += plan_.slots[in.slot.index];
      if (in.action == Action::kEncode) row.encoded += in.elements * 4;
      if (in.action != Action::kRecompute) continue;
      const bool is_derived = std::all_of(graph().at(in.node).outputs.begin(), graph().at(in.node).outputs.end(),
                                          [&](TensorId id) { return r_.store_all[r_.first_wait(id)] != kThrough; });
      ++(is_derived ? row.derived : row.again);
      if (!is_derived) row.again_ms += r_.ms_of(in.node);
      made_again_.insert({in.node, true});
    }
  }

  bool is_made_again(std::size_t i) const { return rows_[i].again_ms > 0.5 * layers_[i].ms; }

  // Its boundary is not kept, so the layer behind it is made again together with it.
  bool is_joined(std::size_t i) const {
    if (!is_made_again(i)) return false;
    return std::any_of(layers_[i].boundary.begin(), layers_[i].boundary.end(), [&](TensorId id) {
      const NodeId producer = graph().at(id).producer;
      return layer_of_[producer.index] == i && made_again_.contains(producer);
    });
  }

  // "int8", or "int8+int4", that of the most bytes first.
  static std::string precision_of(const Row& row) {
    std::vector<std::pair<std::int64_t, precision::Level>> by_bytes;
    for (const auto& [level, bytes] : row.levels) by_bytes.emplace_back(-bytes, level);
    std::sort(by_bytes.begin(), by_bytes.end());
    std::string out;
    for (const auto& [bytes, level] : by_bytes) {
      const std::string_view text = level == precision::Level::kFp32 ? "f32" : precision::name(level);
      out += fmt::format("{}{}", out.empty() ? "" : "+", text);
    }
    return out.empty() ? "f32" : out;
  }

  PlanReport::Layer describe(std::size_t i, std::size_t segment) const {
    const Row& row = rows_[i];
    PlanReport::Layer out{.name = layers_[i].name,
                          .action = "store",
                          .kept_bytes = row.kept,
                          .precision = precision_of(row),
                          .error = row.error};
    out.added_ms = row.again_ms;
    if (row.again > 0) out.freed_bytes = std::max<std::int64_t>(layers_[i].kept_bytes - row.kept, 0);
    if (row.spilled > 0) {
      out.action = "spill";
      out.freed_bytes = row.spilled;
      out.reason = fmt::format("{} leave the arena until backward needs them", human_bytes(row.spilled));
    } else if (is_made_again(i)) {
      out.action = segment > 1 ? fmt::format("every {}", segment) : "recompute";
      out.reason = fmt::format("cheap for its size: frees {}, which are made again in {:.2f} ms",
                               human_bytes(out.freed_bytes), row.again_ms);
    } else if (row.encoded > 0) {
      out.action = "encode";
      out.freed_bytes = std::max<std::int64_t>(layers_[i].kept_bytes - row.kept, 0);
      out.reason = fmt::format("{} of floats are kept in fewer bits", human_bytes(row.encoded));
    } else if (row.again > 0 && plan_.peak_bytes < store_all_bytes_) {
      out.action = "part";
      out.reason = fmt::format("dear to compute and small: kept; the rest frees {}, made again in {:.2f} ms",
                               human_bytes(out.freed_bytes), row.again_ms);
    } else if (plan_.peak_bytes < store_all_bytes_ && row.kept > 0) {
      out.reason =
          fmt::format("dear to compute and small: {} kept, or {:.2f} ms more", human_bytes(row.kept), layers_[i].ms);
    } else {
      out.reason = row.derived > 0 ? "one cheap pass makes the rest again from what is kept" : "it fits";
    }
    return out;
  }

  std::int64_t store_all_bytes_;
  const Levels* levels_;  // null: everything is stored exactly
  const Plan& plan_;
  const Recompute& r_;
  std::vector<Layer> layers_;
  std::vector<std::size_t> layer_of_;  // per node
  std::vector<Row> rows_;
  std::map<NodeId, bool> made_again_;
};

constexpr std::pair<BlockKind, const char*> kKinds[] = {{BlockKind::kState, "state"},
                                                        {BlockKind::kInput, "inputs"},
                                                        {BlockKind::kSaved, "activations kept"},
                                                        {BlockKind::kTransient, "activations in use"},
                                                        {BlockKind::kGradient, "gradients"},
                                                        {BlockKind::kWorkspace, "workspace"}};

void describe_kinds(const Plan& plan, PlanReport& out) {
  const std::size_t ticks = plan.instructions.size();
  for (const auto& [kind, label] : kKinds) {
    std::vector<std::int64_t> live(ticks + 1);
    bool is_used = false;
    for (const Block& b : plan.blocks) {
      if (b.kind != kind) continue;
      is_used = true;
      live[std::min<std::size_t>(b.lower, ticks)] += b.bytes;
      live[std::min<std::size_t>(b.upper, ticks)] -= b.bytes;
    }
    if (!is_used) continue;
    std::partial_sum(live.begin(), live.end(), live.begin());
    live.pop_back();
    out.live_parts.emplace_back(label, std::move(live));
  }
}

// What the fullest instruction has beside it.
void describe_peak(const Graph& graph, const Plan& plan, PlanReport& out) {
  const auto fullest = std::max_element(out.live_bytes.begin(), out.live_bytes.end());
  if (fullest == out.live_bytes.end()) return;
  const auto at = static_cast<std::size_t>(fullest - out.live_bytes.begin());
  out.peak_layer = graph.at(plan.instructions[at].node).layer;
  for (const auto& [label, live] : out.live_parts) {
    if (live[at] > 0) out.peak_parts.emplace_back(label, live[at]);
  }
}

}  // namespace

PlanReport report_of(const Setup& s, const Program& program, const Plan& plan) {
  const Simulation simulation = simulate(plan, program.costs, s.link);
  PlanReport out{.feasible = !s.budget || (plan.peak_bytes <= *s.budget && s.min_bytes <= *s.budget),
                 .budget_bytes = s.budget,
                 .min_budget_bytes = s.min_bytes,
                 .peak_bytes = simulation.peak_bytes,
                 .arena_bytes = plan.peak_bytes,
                 .lower_bound_bytes = plan.lower_bound_bytes,
                 .store_all_bytes = s.store_all_bytes,
                 .state_bytes = plan.state_bytes,
                 .outside_bytes = needed_room(plan, program.graph),
                 .predicted_step_ms = simulation.ms,
                 .planning_ms = s.planning_ms,
                 .live_bytes = simulation.live_bytes};
  const PlanningProblem problem{.graph = program.graph, .costs = program.costs, .link = s.link};
  const Recompute r(problem);
  out.layers = LayerReports(s, plan, r).run();
  for (std::size_t t = 0; t < plan.instructions.size() && out.backward_begins == 0; ++t) {
    const bool is_forward = program.graph.at(plan.instructions[t].node).phase == Phase::kForward;
    if (!is_forward) out.backward_begins = static_cast<std::int64_t>(t);
  }
  describe_kinds(plan, out);
  describe_peak(program.graph, plan, out);
  return out;
}

std::string explain_peak(const PlanReport& report) {
  std::string out;
  for (const auto& [label, bytes] : report.peak_parts) {
    out += fmt::format("{}{} of {}", out.empty() ? "" : ", ", human_bytes(bytes), label);
  }
  return out + fmt::format("; layer '{}' sets it", report.peak_layer);
}

}  // namespace neap
