#include "split/sums.h"

#include "graph/op.h"
#include "optimize/rewrite.h"

namespace neap {
namespace {

class Sums {
 public:
  explicit Sums(const Graph& graph) : graph_(graph), readers_(readers_of(graph)), rewrite_(graph) {}

  Graph run() {
    for (std::uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (node.op->name == "add" && node.phase == Phase::kBackward) look_at({i});
      if (node.op->name == "conv_grad_data") make_lean({i});
    }
    return found_ ? rewrite_.finish() : graph_;
  }

 private:
  // add(sum, part): the part's producer takes the sum instead.
  void look_at(NodeId add) {
    const TensorId sum = graph_.at(add).inputs[0];
    const TensorId part = graph_.at(add).inputs[1];
    const NodeId maker = graph_.at(part).producer;
    const NodeId before = graph_.at(sum).producer;
    const bool is_alone = readers_[part.index].size() == 1 && !is_output(graph_, part);
    if (!maker || !before || !(before < maker) || !is_alone || !is_large(maker)) return;
    if (graph_.at(sum).type != graph_.at(part).type || graph_.at(maker).outputs[0] != part) return;
    const Node& node = graph_.at(maker);
    const bool is_conv = node.op->name == "conv_grad_weight";
    put(maker, sum, add);
    rewrite_.remove(add);
    if (is_conv || readers_[node.outputs[1].index].empty()) rewrite_.remove(maker);
    if (is_conv) begin_lean(before);
  }

  // A weight's gradient that is larger than what it is made from.
  bool is_large(NodeId id) const {
    const Node& node = graph_.at(id);
    const bool is_conv = node.op->name == "conv_grad_weight" && is_plain(node) && node.attrs.ints("kernel").size() == 2;
    if (!is_conv && node.op->name != "linear_grad_weight") return false;
    return bytes_of(node.outputs[0]) >= bytes_of(node.inputs[0]) + bytes_of(node.inputs[1]);
  }

  // The first part's gradient, without the library's second copy of it.
  void begin_lean(NodeId first) {
    if (graph_.at(first).op->name != "conv_grad_weight" || !is_large(first)) return;
    put(first, {}, first);
    rewrite_.remove(first);
  }

  // The same for the weight, beside which its gradient's sum lies.
  void make_lean(NodeId id) {
    const Node& node = graph_.at(id);
    const bool is_image = is_plain(node) && graph_.at(node.outputs[0]).type.shape.rank() == 4;
    if (!is_image || bytes_of(node.inputs[1]) < bytes_of(node.inputs[0]) + bytes_of(node.outputs[0])) return;
    Node lean = node;
    lean.attrs.set("lean", std::int64_t{1});
    rewrite_.put(id, std::move(lean), node.outputs);
    rewrite_.remove(id);
    found_ = true;
  }

  std::int64_t bytes_of(TensorId id) const { return graph_.at(id).type.bytes(); }
  static bool is_plain(const Node& conv) { return conv.attrs.integer("groups", 1) == 1; }

  // In front of `maker`: what adds its gradient to `sum` (none: to nothing), in the place of the result of `old`.
  void put(NodeId maker, TensorId sum, NodeId old) {
    const Node& node = graph_.at(maker);
    const bool is_conv = node.op->name == "conv_grad_weight";
    Node made = node;
    made.op = &op_named(is_conv ? "conv_add_weight" : "linear_add_weight");
    made.name = graph_.at(old).name;
    made.inputs.push_back(sum);
    rewrite_.put(maker, std::move(made), {graph_.at(old).outputs[0]});
    if (is_conv) put_bias(maker);
    found_ = true;
  }

  void put_bias(NodeId conv) {
    const Node& node = graph_.at(conv);
    if (node.outputs.size() < 2 || readers_[node.outputs[1].index].empty()) return;
    Node bias = node;
    bias.op = &op_named("sum_to");
    bias.name = node.name + ".bias";
    bias.inputs = {node.inputs[1]};
    bias.attrs = {{"shape", graph_.at(node.outputs[1]).type.shape}};
    rewrite_.put(conv, std::move(bias), {node.outputs[1]});
  }

  const Graph& graph_;
  std::vector<std::vector<NodeId>> readers_;
  Rewrite rewrite_;
  bool found_ = false;
};

}  // namespace

Graph with_sums_in_place(const Graph& graph) { return Sums(graph).run(); }

}  // namespace neap
