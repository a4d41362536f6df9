#include "mixed/tiled_loss.h"

#include <algorithm>

#include "graph/op.h"

namespace neap {
namespace {

class Fusion {
 public:
  Fusion(const Graph& graph, std::int64_t least) : from_(graph), least_(least), readers_(graph.tensors.size()) {
    for (const Node& node : graph.nodes) {
      for (const TensorId id : node.inputs) {
        if (id) ++readers_[id.index];
      }
    }
    for (const auto& [label, id] : graph.outputs) ++readers_[id.index];
  }

  // The linear layer that makes the logits of this loss, if the two can be one.
  const Node* layer_of(const Node& node) const {
    if (node.op->name != "cross_entropy" || readers_[node.outputs[1].index] > 0) return nullptr;
    const Tensor& logits = from_.at(node.inputs[0]);
    if (!logits.producer || readers_[node.inputs[0].index] != 1) return nullptr;
    const Node& layer = from_.at(logits.producer);
    const bool is_plain = layer.op->name == "linear" && layer.attrs.integer("transposed", 0) == 0;
    return is_plain && logits.type.shape.size(-1) >= least_ ? &layer : nullptr;
  }

  Graph run() {
    std::vector<const Node*> gone;
    for (const Node& node : from_.nodes) {
      if (const Node* layer = layer_of(node)) gone.push_back(layer);
    }
    renamed_.resize(from_.tensors.size());
    for (std::uint32_t i = 0; i < from_.tensors.size(); ++i) {
      if (!from_.tensors[i].producer) renamed_[i] = to_.add(from_.tensors[i]);
    }
    for (const Node& node : from_.nodes) {
      if (std::find(gone.begin(), gone.end(), &node) != gone.end()) continue;
      const Node* layer = layer_of(node);
      layer == nullptr ? append(node) : append_fused(node, *layer);
    }
    for (const auto& [label, id] : from_.outputs) to_.outputs.emplace_back(label, renamed_[id.index]);
    return std::move(to_);
  }

 private:
  TensorId renamed(const Node& node, std::size_t i) const {
    return i < node.inputs.size() && node.inputs[i] ? renamed_[node.inputs[i].index] : TensorId{};
  }

  void append(const Node& node) {
    Node copy = node;
    std::vector<std::string> names;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) copy.inputs[i] = renamed(node, i);
    for (const TensorId id : node.outputs) names.push_back(from_.at(id).name);
    const NodeId at = to_.append(std::move(copy), std::move(names));
    for (std::size_t i = 0; i < node.outputs.size(); ++i) renamed_[node.outputs[i].index] = to_.at(at).outputs[i];
  }

  void append_fused(const Node& loss, const Node& layer) {
    Node made = loss;
    made.op = &op_named("linear_loss");
    made.inputs = {renamed(layer, 0), renamed(layer, 1), renamed(layer, 2), renamed(loss, 1)};
    const NodeId at = to_.append(std::move(made), {from_.at(loss.outputs[0]).name});
    renamed_[loss.outputs[0].index] = to_.at(at).outputs[0];
  }

  const Graph& from_;
  std::int64_t least_;
  std::vector<int> readers_;
  Graph to_;
  std::vector<TensorId> renamed_;
};

}  // namespace

Graph with_tiled_loss(const Graph& graph, std::int64_t least_classes) { return Fusion(graph, least_classes).run(); }

}  // namespace neap
