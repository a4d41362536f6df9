#include "plan/order.h"

#include "plan/views.h"

namespace neap {
namespace {

class Order {
 public:
  Order(const Plan& plan, const Graph& graph)
      : graph_(graph), views_(find_views(graph)), has_come_(graph.nodes.size()) {
    for (const Instruction& in : plan.instructions) {
      if (is_call(in.action) && graph.at(in.node).phase != Phase::kUpdate) add(in.node);
    }
    for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
      if (is_missing({i})) add({i});
    }
  }

  std::vector<NodeId> take() { return std::move(out_); }

 private:
  // What it reads comes first: only a concatenation can have failed to.
  void add(NodeId id) {
    for (const TensorId input : graph_.at(id).inputs) {
      if (const NodeId made_by = producer(input); made_by && is_missing(made_by)) add(made_by);
    }
    has_come_[id.index] = true;
    out_.push_back(id);
  }

  bool is_missing(NodeId id) const {
    const Node& node = graph_.at(id);
    return !has_come_[id.index] && node.phase != Phase::kUpdate && !is_view(views_, node);
  }

  NodeId producer(TensorId id) const { return id ? graph_.at(views_[id.index].root).producer : NodeId{}; }

  const Graph& graph_;
  std::vector<Window> views_;
  std::vector<bool> has_come_;  // one a node
  std::vector<NodeId> out_;
};

}  // namespace

std::vector<NodeId> order_of(const Plan& plan, const Graph& graph) { return Order(plan, graph).take(); }

}  // namespace neap
