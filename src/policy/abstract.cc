#include "policy/abstract.h"

#include <algorithm>

#include "core/bytes.h"
#include "graph/op.h"

namespace neap {
namespace {

class Converter {
 public:
  explicit Converter(const Recompute& r) : r_(r), graph_(r.problem.graph), index_(graph_.tensors.size(), kNone) {}

  AbstractProgram run() {
    for (std::uint32_t i = 0; i < graph_.tensors.size(); ++i) {
      const Tensor& t = graph_.tensors[i];
      if (!t.producer && t.role == Role::kInput) add_tensor({i}, remat::kNoOp);
    }
    for (const NodeId id : r_.forward) add_op(id);
    find_updates();
    for (const NodeId id : r_.backward) {
      add_op(id);
      for (const NodeId update : updates_[id.index]) add_op(update);
    }
    for (const auto& [label, id] : graph_.outputs) {
      const std::uint32_t i = index_[root(id).index];
      if (i != kNone && std::find(keep().begin(), keep().end(), i) == keep().end()) keep().push_back(i);
    }
    return std::move(out_);
  }

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  TensorId root(TensorId id) const { return r_.views[id.index].root; }
  std::vector<remat::TensorIndex>& keep() { return out_.problem.keep; }

  void add_tensor(TensorId id, remat::OpIndex op) {
    index_[id.index] = static_cast<std::uint32_t>(out_.problem.tensors.size());
    out_.problem.tensors.push_back({.name = graph_.at(id).name, .bytes = r_.bytes_of(id), .op = op});
  }

  bool may_run_again(const Node& node) const {
    return node.phase != Phase::kForward ||
           std::any_of(node.outputs.begin(), node.outputs.end(), [&](TensorId id) { return r_.is_forward[id.index]; });
  }

  void add_op(NodeId id) {
    const Node& node = graph_.at(id);
    const auto index = static_cast<remat::OpIndex>(out_.problem.ops.size());
    const auto& scratch = r_.problem.costs.workspace;
    remat::Op op{.name = node.name,
                 .ms = r_.ms_of(id),
                 .workspace = id.index < scratch.size() ? align_up(scratch[id.index]) : 0,
                 .recompute = !node.op->side_effects() && may_run_again(node)};
    for (const TensorId input : node.inputs) {
      const std::uint32_t i = input ? index_[root(input).index] : kNone;
      if (i != kNone && std::find(op.inputs.begin(), op.inputs.end(), i) == op.inputs.end()) op.inputs.push_back(i);
    }
    for (const TensorId output : node.outputs) {
      add_tensor(output, index);
      op.outputs.push_back(index_[output.index]);
    }
    out_.problem.ops.push_back(std::move(op));
    out_.nodes.push_back(id);
  }

  // Each right behind the last node of backward that makes something it reads, as the planner places it.
  void find_updates() {
    updates_.resize(graph_.nodes.size());
    std::vector<NodeId> maker(graph_.tensors.size());
    for (const NodeId id : r_.backward) {
      for (const TensorId output : graph_.at(id).outputs) maker[output.index] = id;
    }
    for (std::uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (node.phase != Phase::kUpdate || is_view(r_.views, node) || r_.backward.empty()) continue;
      NodeId last = r_.backward.front();
      for (const TensorId input : node.inputs) {
        const NodeId at = input ? maker[root(input).index] : NodeId{};
        if (at) last = std::max(last, at);
      }
      updates_[last.index].push_back({i});
      for (const TensorId output : node.outputs) maker[output.index] = last;
      for (const std::uint8_t m : node.op->mutates) {
        if (m < node.inputs.size() && node.inputs[m]) maker[root(node.inputs[m]).index] = last;
      }
    }
  }

  const Recompute& r_;
  const Graph& graph_;
  std::vector<std::uint32_t> index_;          // per tensor
  std::vector<std::vector<NodeId>> updates_;  // per node of backward
  AbstractProgram out_;
};

}  // namespace

AbstractProgram abstract_of(const Recompute& r) { return Converter(r).run(); }

std::vector<NodeId> order_of(const AbstractProgram& program, const Graph& graph,
                             const std::vector<remat::Step>& steps) {
  std::vector<NodeId> out;
  for (const remat::Step& step : steps) {
    if (step.kind != remat::StepKind::kRun) continue;
    const NodeId id = program.nodes[step.index];
    if (graph.at(id).phase != Phase::kUpdate) out.push_back(id);
  }
  return out;
}

}  // namespace neap
