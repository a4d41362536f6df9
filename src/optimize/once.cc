#include "optimize/once.h"

#include <algorithm>

#include "neap/error.h"
#include "optimize/rewrite.h"

namespace neap {
namespace {

bool is_once(const Node& node) { return node.attrs.integer(kOnce, 0) != 0; }

class Splitter {
 public:
  explicit Splitter(const Graph& graph)
      : graph_(graph), in_once_(graph.tensors.size()), in_rest_(graph.tensors.size()) {}

  Halves run() {
    for (std::uint32_t i = 0; i < graph_.tensors.size(); ++i) copy_leaf({i});
    for (const Node& node : graph_.nodes) {
      if (is_once(node)) {
        add_once(node);
      } else {
        out_.rest.append(moved(node, in_rest_), names(node));
        note_outputs(node, out_.rest, in_rest_);
      }
    }
    for (const auto& [label, id] : graph_.outputs) out_.rest.outputs.emplace_back(label, in_rest_[id.index]);
    verify(out_.once);
    verify(out_.rest);
    return std::move(out_);
  }

 private:
  // To the half that reads it; to the rest where nobody does.
  void copy_leaf(TensorId id) {
    const Tensor& t = graph_.at(id);
    if (t.producer) return;
    bool has_once = false, has_other = is_output(graph_, id);
    for (const NodeId reader : readers_[id.index]) (is_once(graph_.at(reader)) ? has_once : has_other) = true;
    if (has_once) in_once_[id.index] = out_.once.add(t);
    if (has_other || !has_once) in_rest_[id.index] = out_.rest.add(t);
  }

  void add_once(const Node& node) {
    for (const TensorId id : node.inputs) {
      const bool is_state_only = !id || graph_.at(id).producer || is_state(graph_.at(id).role);
      require(is_state_only && (!id || in_once_[id.index]), "what runs once reads weights and constants alone");
    }
    out_.once.append(moved(node, in_once_), names(node));
    note_outputs(node, out_.once, in_once_);
    for (const TensorId id : node.outputs) {
      if (!id) continue;
      bool is_wanted = is_output(graph_, id);
      for (const NodeId reader : readers_[id.index]) is_wanted |= !is_once(graph_.at(reader));
      if (!is_wanted) continue;
      const Tensor& t = graph_.at(id);
      in_rest_[id.index] = out_.rest.add({.name = t.name, .type = t.type, .role = Role::kBuffer});
      out_.once.outputs.emplace_back(t.name, in_once_[id.index]);
    }
  }

  Node moved(const Node& node, const std::vector<TensorId>& to) const {
    Node out = node;
    for (TensorId& id : out.inputs) {
      if (!id) continue;
      require(static_cast<bool>(to[id.index]), "what runs once reads weights and constants alone");
      id = to[id.index];
    }
    return out;
  }

  std::vector<std::string> names(const Node& node) const {
    std::vector<std::string> out;
    for (const TensorId id : node.outputs) out.push_back(id ? graph_.at(id).name : "");
    return out;
  }

  static void note_outputs(const Node& node, const Graph& in, std::vector<TensorId>& to) {
    const Node& copy = in.nodes.back();
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i]) to[node.outputs[i].index] = copy.outputs[i];
    }
  }

  const Graph& graph_;
  std::vector<std::vector<NodeId>> readers_ = readers_of(graph_);
  std::vector<TensorId> in_once_, in_rest_;
  Halves out_;
};

}  // namespace

Halves split_once(const Graph& graph) {
  const bool has_any = std::any_of(graph.nodes.begin(), graph.nodes.end(), is_once);
  return has_any ? Splitter(graph).run() : Halves{.once = {}, .rest = graph};
}

}  // namespace neap
