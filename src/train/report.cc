// What a plan does, for people: layer by layer, over time, and at its fullest moment.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "core/bytes.h"
#include "graph/op.h"
#include "plan/simulate.h"
#include "plan/transfers.h"
#include "policy/layers.h"
#include "train/setup.h"
#include "train/spilling.h"

namespace neap {
namespace {

std::string joined(const std::vector<std::string>& parts, std::string_view between) {
  std::string out;
  for (const std::string& part : parts) out += fmt::format("{}{}", out.empty() ? "" : between, part);
  return out;
}

// By which layers can be compared.
std::string rate(std::int64_t bytes, double ms) {
  constexpr double kLeastMs = 1e-3;
  return bytes > 0 && ms > kLeastMs
             ? fmt::format(" ({} a ms)", human_bytes(static_cast<std::int64_t>(static_cast<double>(bytes) / ms)))
             : "";
}

class LayerReports {
 public:
  LayerReports(const Setup& setup, const Plan& plan, const Recompute& r)
      : setup_(setup),
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
    is_all_kept_ = std::none_of(rows_.begin(), rows_.end(), [](const Row& row) { return row.is_changed(); });
    rule_ = rule_at_work();
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
    std::int64_t fetched = 0;
    double link_ms = 0;        // that its transfers take, beside the calls or not
    double host_ms = 0;        // that calls lose to them
    std::int64_t encoded = 0;  // bytes of the floats, and of which level
    std::map<precision::Level, std::int64_t> codes;
    std::int64_t rounded_away = 0;
    double codec_ms = 0;
    double again_ms = 0;
    std::int64_t again_bytes = 0;  // that store-all keeps
    int again = 0;                 // nodes made again that store-all keeps
    int derived = 0;               // nodes made again that store-all makes again too

    bool is_changed() const { return again > 0 || spilled > 0 || fetched > 0 || encoded > 0; }
  };

  const Graph& graph() const { return r_.problem.graph; }

  void count() {
    for (const Block& b : plan_.blocks) {
      if (b.kind != BlockKind::kSaved || !b.tensor || !graph().at(b.tensor).producer) continue;
      Row& row = rows_[layer_of_[graph().at(b.tensor).producer.index]];
      row.kept += b.bytes;
      row.levels[b.level] += b.bytes;
    }
    for (const StoredTensorReport& t :
         levels_ != nullptr ? levels_->rows(plan_, graph()) : std::vector<StoredTensorReport>{}) {
      if (const auto id = graph().find(t.name)) rows_[layer_of_[graph().at(*id).producer.index]].error += t.error;
    }
    for (const Instruction& in : plan_.instructions) {
      Row& row = rows_[layer_of_[in.node.index]];
      if (in.action == Action::kRecompute) count_again(in.node, row);
      if (in.action == Action::kSpillBegin || in.action == Action::kFetchBegin) count_transfer(in, row);
      if (is_codec(in.action)) count_codec(in, row);
    }
  }

  bool store_all_keeps(TensorId id) const { return r_.store_all[r_.first_wait(id)] == kThrough; }

  void count_again(NodeId id, Row& row) {
    const std::vector<TensorId>& outputs = graph().at(id).outputs;
    const bool is_derived =
        std::none_of(outputs.begin(), outputs.end(), [&](TensorId output) { return store_all_keeps(output); });
    ++(is_derived ? row.derived : row.again);
    const bool is_first = made_again_.insert(id).second;
    if (is_derived) return;
    row.again_ms += r_.ms_of(id);
    for (const TensorId output : outputs) {
      if (is_first && r_.is_used(output) && store_all_keeps(output)) row.again_bytes += r_.bytes_of(output);
    }
  }

  void count_transfer(const Instruction& in, Row& row) const {
    const std::int64_t bytes = plan_.slots[in.slot.index];
    (in.action == Action::kSpillBegin ? row.spilled : row.fetched) += bytes;
    row.link_ms += transfer_ms(r_.problem.link, in.action, bytes);
    row.host_ms += static_cast<double>(bytes) * r_.problem.link.host_ms_per_byte;
  }

  void count_codec(const Instruction& in, Row& row) const {
    row.codec_ms += codec_ms(r_.problem.costs.codec, in.action, in.level, in.elements);
    if (in.action != Action::kEncode) return;
    row.encoded += in.elements * 4;
    row.codes[in.level] += in.elements * 4;
    row.rounded_away += in.elements * 4 - precision::encoded_bytes(in.level, in.elements);
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
  static std::string names_of(const std::map<precision::Level, std::int64_t>& levels) {
    std::vector<std::pair<std::int64_t, precision::Level>> by_bytes;
    for (const auto& [level, bytes] : levels) by_bytes.emplace_back(-bytes, level);
    std::sort(by_bytes.begin(), by_bytes.end());
    std::string out;
    for (const auto& [bytes, level] : by_bytes) {
      const std::string_view text = level == precision::Level::kFp32 ? "f32" : precision::name(level);
      out += fmt::format("{}{}", out.empty() ? "" : "+", text);
    }
    return out.empty() ? "f32" : out;
  }

  // That store-all would keep of the layer in the arena. What leaves is also in it before and behind, so there the sum
  // is of what is done.
  std::int64_t freed_bytes(std::size_t i) const {
    const Row& row = rows_[i];
    if (row.spilled > 0) return row.spilled + row.again_bytes + row.rounded_away;
    if (row.again == 0 && row.encoded == 0) return 0;
    return std::max<std::int64_t>(layers_[i].kept_bytes - row.kept, 0);
  }

  PlanReport::Layer describe(std::size_t i, std::size_t segment) const {
    const Row& row = rows_[i];
    return {.name = layers_[i].name,
            .action = action_of(i, segment),
            .kept_bytes = row.kept,
            .precision = names_of(row.levels),
            .error = row.error,
            .reason = reason_of(i),
            .freed_bytes = freed_bytes(i),
            .added_ms = row.again_ms + row.codec_ms + row.host_ms};
  }

  // "recompute+spill" where both are done.
  std::string action_of(std::size_t i, std::size_t segment) const {
    const Row& row = rows_[i];
    std::vector<std::string> out;
    if (is_made_again(i)) {
      out.push_back(segment > 1 ? fmt::format("every {}", segment) : "recompute");
    } else if (row.again > 0) {
      out.emplace_back("part");
    }
    if (row.encoded > 0) out.emplace_back("encode");
    if (row.spilled > 0) {
      out.emplace_back("spill");
    } else if (row.fetched > 0) {
      out.emplace_back("fetch");  // weights that lie outside
    }
    return out.empty() ? "store" : joined(out, "+");
  }

  std::string reason_of(std::size_t i) const {
    const Row& row = rows_[i];
    if (is_all_kept_) return why_all_is_kept(row);
    std::vector<std::string> out;
    if (row.again > 0) out.push_back(again_text(i));
    if (row.encoded > 0) {
      out.push_back(fmt::format("{} of floats are kept in {}: {:.2f} ms to encode and decode", human_bytes(row.encoded),
                                names_of(row.codes), row.codec_ms));
    }
    if (row.spilled > 0) {
      out.push_back(
          fmt::format("{} leave the arena until backward needs them{}", human_bytes(row.spilled), link_text(row)));
    } else if (row.fetched > 0) {
      out.push_back(
          fmt::format("{} of weights come in when they are read{}", human_bytes(row.fetched), link_text(row)));
    }
    if (out.empty()) out.push_back(why_kept(i));
    if (rule_) out.push_back(fmt::format("{} {}", setup_.policy->name(), rule_->text));
    return joined(out, "; ");
  }

  std::string again_text(std::size_t i) const {
    const Row& row = rows_[i];
    const std::int64_t freed = row.spilled > 0 || row.encoded > 0 ? row.again_bytes : freed_bytes(i);
    const std::string kept =
        is_made_again(i) || row.kept == 0 ? "" : fmt::format("{} kept; the rest ", human_bytes(row.kept));
    const std::string made = fmt::format("made again in {:.2f} ms", row.again_ms);
    if (freed == 0) return kept.empty() ? made : fmt::format("{}is {}", kept, made);
    return fmt::format("{}frees {}, {}{}", kept, human_bytes(freed), made, rate(freed, row.again_ms));
  }

  static std::string link_text(const Row& row) {
    return row.link_ms > 0 ? fmt::format(": {:.2f} ms on the link", row.link_ms) : "";
  }

  // Beside layers of which not all is kept.
  std::string why_kept(std::size_t i) const {
    const Row& row = rows_[i];
    if (row.kept == 0) return "nothing of it is kept for backward";
    if (rule_ && rule_->means != Means::kAgain) return human_bytes(row.kept) + " kept";  // nobody thought of more
    return fmt::format("{} kept: to make the layer again would take {:.2f} ms{}", human_bytes(row.kept), layers_[i].ms,
                       rate(row.kept, layers_[i].ms));
  }

  std::string why_all_is_kept(const Row& row) const {
    const std::string_view policy = setup_.policy->name();
    std::string out = "everything fits, so it is kept";
    if (policy == "store-all") {
      out = "store-all keeps everything";
    } else if (setup_.budget && plan_.peak_bytes > *setup_.budget) {
      out = fmt::format("kept: {} knows no plan of fewer bytes", policy);
    }
    return row.derived > 0 ? out + "; one cheap pass makes the rest again from it" : out;
  }

  bool is_at_work(Means means) const {
    return std::any_of(rows_.begin(), rows_.end(), [&](const Row& row) {
      if (means == Means::kAgain) return row.again > 0;
      return means == Means::kSpill ? row.spilled > 0 : row.encoded > 0;
    });
  }

  std::optional<PolicyRule> rule_at_work() const {
    std::optional<PolicyRule> rule = setup_.policy->rule();
    return rule && is_at_work(rule->means) ? std::move(rule) : std::nullopt;
  }

  const Setup& setup_;
  const Levels* levels_;  // null: everything is stored exactly
  const Plan& plan_;
  const Recompute& r_;
  std::vector<Layer> layers_;
  std::vector<std::size_t> layer_of_;  // per node
  std::vector<Row> rows_;
  std::set<NodeId> made_again_;
  bool is_all_kept_ = false;
  std::optional<PolicyRule> rule_;  // none: the figures decided
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
