#include "policy/recompute.h"

#include <algorithm>

#include "core/bytes.h"
#include "graph/op.h"
#include "plan/schedule.h"

namespace neap {

Recompute::Recompute(const PlanningProblem& p) : problem(p), views(find_views(p.graph)), reads(p.graph.nodes.size()) {
  const Graph& graph = p.graph;
  is_forward.assign(graph.tensors.size(), false);
  is_bound.assign(graph.tensors.size(), false);
  const Decisions base = neap::store_all(graph);
  const std::vector<bool> is_kept = kept_from_parts(graph, views);
  whole_.resize(graph.tensors.size());
  for (std::uint32_t i = 0; i < whole_.size(); ++i) whole_[i] = {i};
  for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (is_view(views, node) || node.phase == Phase::kUpdate) continue;
    (node.phase == Phase::kForward ? forward : backward).push_back({i});
    for (const TensorId id : node.inputs) {
      const TensorId root = id ? views[id.index].root : TensorId{};
      if (!root || !is_forward[root.index]) continue;
      if (std::find(reads[i].begin(), reads[i].end(), root) == reads[i].end()) reads[i].push_back(root);
      if (node.op->part_offset != nullptr) whole_[root.index] = node.outputs[0];
    }
    if (node.phase != Phase::kForward || node.op->side_effects() || is_kept[i]) continue;
    find_makers(node, base);
  }
  find_waits();
  store_all.assign(ends.size(), kThrough);
  for (std::uint32_t i = 0; i < base.residency.size(); ++i) {
    if (base.residency[i] == Residency::kRecompute) store_all[first_wait({i})] = 0;
  }
}

// In the order of the program.
void Recompute::find_makers(const Node& node, const Decisions& lossless) {
  const bool is_settled = problem.levels != nullptr && problem.levels->is_settled;
  const auto is_rounded = [&](TensorId id) {
    const TensorId root = id ? views[id.index].root : id;
    return root && (is_bound[root.index] || level_of(problem, root) != precision::Level::kFp32);
  };
  const bool reads_rounded = is_settled && std::any_of(node.inputs.begin(), node.inputs.end(), is_rounded);
  const bool makes_rounded = is_settled && std::any_of(node.outputs.begin(), node.outputs.end(), is_rounded);
  for (const TensorId id : node.outputs) {
    const bool is_derived = lossless.residency[id.index] == Residency::kRecompute;
    is_bound[id.index] = reads_rounded && is_derived;
    is_forward[id.index] = !makes_rounded && (!reads_rounded || is_derived);
  }
}

void Recompute::find_waits() {
  const std::size_t tensors = problem.graph.tensors.size();
  std::vector<std::vector<Position>> uses(tensors);
  for (Position at = 0; at < static_cast<Position>(backward.size()); ++at) {
    for (const TensorId id : reads[backward[static_cast<std::size_t>(at)].index]) uses[id.index].push_back(at);
  }
  for (std::uint32_t i = 0; i < tensors; ++i) {
    waits.push_back(static_cast<Wait>(ends.size()));
    // What backward never reads may still be what recomputation starts from.
    if (uses[i].empty()) uses[i].push_back(static_cast<Position>(backward.size()));
    ends.insert(ends.end(), uses[i].begin(), uses[i].end());
    waiting.resize(ends.size(), {i});
  }
  waits.push_back(static_cast<Wait>(ends.size()));
}

std::int64_t Recompute::bytes_of(TensorId id) const {
  const TensorType& type = problem.graph.at(id).type;
  const precision::Level level = has_choice_of_levels(problem) ? precision::Level::kFp32 : level_of(problem, id);
  return align_up(level == precision::Level::kFp32 ? type.bytes() : precision::encoded_bytes(level, type.elements()));
}

double Recompute::ms_of(NodeId id) const { return id.index < problem.costs.ms.size() ? problem.costs.ms[id.index] : 0; }

namespace {

class OrderMaker {
 public:
  OrderMaker(const Recompute& r, const Retention& retention)
      : r_(r),
        retention_(retention),
        is_there_(r.problem.graph.tensors.size(), true),
        wait_(r.waits.begin(), r.waits.end() - 1),
        order_(r.forward) {
    for (std::uint32_t i = 0; i < is_there_.size(); ++i) {
      if (r.is_forward[i] && (r.is_bound[i] || retention[wait_[i]] != kThrough)) is_there_[i] = false;
    }
  }

  std::vector<NodeId> run() {
    for (Position at = 0; at < static_cast<Position>(r_.backward.size()); ++at) {
      const NodeId node = r_.backward[static_cast<std::size_t>(at)];
      for (const TensorId id : r_.reads[node.index]) need(id);
      order_.push_back(node);
      for (const TensorId id : r_.reads[node.index]) begin_next_wait(id);
      for (const TensorId id : made_) is_there_[id.index] = stays(id, at);
      made_.clear();
    }
    return std::move(order_);
  }

 private:
  bool stays(TensorId id, Position at) const { return retention_[wait_[id.index]] <= at; }

  void begin_next_wait(TensorId id) {
    if (wait_[id.index] + 1 == r_.waits[id.index + 1]) return;  // that was the last use
    ++wait_[id.index];
    is_there_[id.index] = retention_[wait_[id.index]] == kThrough;
  }

  void need(TensorId id) {
    if (is_there_[id.index]) return;
    const NodeId producer = r_.problem.graph.at(id).producer;
    for (const TensorId input : r_.reads[producer.index]) need(input);
    order_.push_back(producer);
    for (const TensorId output : r_.problem.graph.at(producer).outputs) {
      if (is_there_[output.index]) continue;
      is_there_[output.index] = true;
      made_.push_back(output);
    }
  }

  const Recompute& r_;
  const Retention& retention_;
  std::vector<bool> is_there_;
  std::vector<Wait> wait_;      // per tensor: the present one
  std::vector<TensorId> made_;  // for the present node of backward
  std::vector<NodeId> order_;
};

}  // namespace

Decisions decisions_of(const Recompute& r, const Retention& retention) {
  return {.order = OrderMaker(r, retention).run(), .levels = levels_of(r.problem)};
}

Footprint footprint_of(const Recompute& r, const Retention& retention, std::int64_t budget) {
  const PlanningProblem& p = r.problem;
  return footprint(p.graph, r.views, p.costs, decisions_of(r, retention), budget);
}

Plan plan_of(const Recompute& r, const Retention& retention) {
  const PlanningProblem& p = r.problem;
  return std::get<Plan>(make_plan(p.graph, p.costs, decisions_of(r, retention), kNoBudget, p.layout));
}

Retention retention_of(const Recompute& r, const std::vector<NodeId>& order) {
  const Graph& graph = r.problem.graph;
  Retention out(r.ends.size(), kThrough);
  std::vector<Position> remade(graph.tensors.size(), kThrough);  // in the present wait: for which node of backward
  std::vector<Wait> wait(r.waits.begin(), r.waits.end() - 1);
  std::vector<bool> has_run(graph.nodes.size());
  Position at = 0;
  for (const NodeId node : order) {
    const bool is_again = has_run[node.index];
    has_run[node.index] = true;
    if (is_again) {
      for (const TensorId id : graph.at(node).outputs) remade[id.index] = at;
    }
    if (is_again || graph.at(node).phase != Phase::kBackward) continue;
    for (const TensorId id : r.reads[node.index]) {
      out[wait[id.index]] = remade[id.index];
      remade[id.index] = kThrough;
      if (wait[id.index] + 1 < r.waits[id.index + 1]) ++wait[id.index];
    }
    ++at;
  }
  for (std::uint32_t i = 0; i < graph.tensors.size(); ++i) {  // no use ends these waits
    if (r.is_forward[i] && !r.is_used({i})) out[r.first_wait({i})] = remade[i];
  }
  return out;
}

}  // namespace neap
