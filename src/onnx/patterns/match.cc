#include "onnx/patterns/match.h"

#include <fmt/format.h>

#include <cstring>

#include "neap/error.h"
#include "onnx/patterns/patterns.h"

namespace neap::onnx {

Match::Match(const Graph& graph)
    : graph_(graph), makers_(graph.tensors.size(), nullptr), readers_(graph.tensors.size()) {
  for (const Node& node : graph.nodes) {
    for (const TensorId id : node.outputs) makers_[id.index] = &node;
    for (const TensorId id : node.inputs) {
      if (id) ++readers_[id.index];
    }
  }
  for (const auto& [name, id] : graph.outputs) ++readers_[id.index];
}

const Node* Match::producer(TensorId id) const { return id ? makers_[id.index] : nullptr; }

const Node* Match::from(TensorId id, std::string_view op) const {
  const Node* node = producer(id);
  return node != nullptr && node->op->name == op ? node : nullptr;
}

std::optional<double> Match::number(TensorId id) const {
  if (!id) return std::nullopt;
  const Tensor& t = graph_.at(id);
  if (t.role != Role::kConstant || t.type.dtype != DType::kF32 || t.type.elements() < 1) return std::nullopt;
  float first = 0;
  std::memcpy(&first, t.data->data(), sizeof first);
  for (std::int64_t i = 1; i < t.type.elements(); ++i) {
    if (std::memcmp(t.data->data(), t.data->data() + i * 4, sizeof first) != 0) return std::nullopt;
  }
  return static_cast<double>(first);
}

TensorId Match::without_views(TensorId id) const {
  for (const Node* node = producer(id); node != nullptr; node = producer(id)) {
    const std::string_view op = node->op->name;
    if (op != "reshape" && op != "identity" && op != "unsqueeze" && op != "squeeze" && op != "expand") break;
    id = node->inputs[0];
  }
  return id;
}

std::optional<Match::WithNumber> Match::with_number(const Node* node) const {
  if (node == nullptr || node->inputs.size() != 2) return std::nullopt;
  if (const auto n = number(node->inputs[1])) return WithNumber{node->inputs[0], *n};
  if (const auto n = number(node->inputs[0])) return WithNumber{node->inputs[1], *n};
  return std::nullopt;
}

TensorId made(std::size_t node, std::size_t output) {
  return TensorId{kMade | static_cast<std::uint32_t>(node << 8U | output)};
}

namespace {

// Copies a graph, with tensors renumbered as their makers come.
class Copy {
 public:
  explicit Copy(const Graph& from) : from_(from), here_(from.tensors.size()) {
    for (std::uint32_t i = 0; i < from.tensors.size(); ++i) {
      const Tensor& t = from.tensors[i];
      if (t.role != Role::kActivation) here_[i] = out_.add(t);
    }
  }

  TensorId of(TensorId id) const { return id ? here_[id.index] : id; }
  void map(TensorId from, TensorId to) { here_[from.index] = to; }

  void keep(const Node& node) {
    Node copy = node;
    for (TensorId& id : copy.inputs) id = of(id);
    copy.outputs.clear();
    std::vector<std::string> names;
    for (const TensorId id : node.outputs) names.push_back(from_.at(id).name);
    const NodeId id = out_.append(std::move(copy), std::move(names));
    for (std::size_t i = 0; i < node.outputs.size(); ++i) map(node.outputs[i], out_.at(id).outputs[i]);
  }

  // False, and nothing changed that counts, when the replacement does not fit.
  bool replace(const Node& node, const Replacement& r) {
    std::vector<std::vector<TensorId>> results;
    try {
      results = append(node, r);
    } catch (const UserError&) {
      return false;
    }
    for (std::size_t i = 0; i < r.outputs.size(); ++i) {
      const TensorId to = results.at(r.outputs[i].first).at(r.outputs[i].second);
      if (!(out_.at(to).type == from_.at(node.outputs[i]).type)) return false;
    }
    for (std::size_t i = 0; i < r.outputs.size(); ++i) {
      map(node.outputs[i], results[r.outputs[i].first][r.outputs[i].second]);
    }
    return true;
  }

  Graph finish() {
    for (const auto& [name, id] : from_.outputs) out_.outputs.emplace_back(name, of(id));
    return std::move(out_);
  }

 private:
  std::vector<std::vector<TensorId>> append(const Node& node, const Replacement& r) {
    std::vector<std::vector<TensorId>> results;
    for (const Node& each : r.nodes) {
      Node copy = each;
      for (TensorId& id : copy.inputs) {
        if (!id) continue;
        const bool is_made = (id.index & kMade) != 0;
        id = is_made ? results.at((id.index & ~kMade) >> 8U).at(id.index & 0xFFU) : of(id);
      }
      if (copy.op->name == "identity") {
        results.push_back(copy.inputs);
        continue;
      }
      copy.name = unique(fmt::format("{}.{}", node.layer, copy.op->name));
      copy.layer = node.layer;
      const NodeId id = out_.append(std::move(copy));
      results.push_back(out_.at(id).outputs);
    }
    return results;
  }

  std::string unique(const std::string& name) {
    std::string out = name;
    for (int i = 2; out_.has_name(out) || from_.has_name(out); ++i) out = fmt::format("{}.{}", name, i);
    return out;
  }

  const Graph& from_;
  Graph out_;
  std::vector<TensorId> here_;
};

}  // namespace

Graph rewrite_with(const Graph& graph, const std::vector<std::optional<Replacement>>& replacements) {
  Copy copy(graph);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const bool is_replaced = replacements[i] && copy.replace(graph.nodes[i], *replacements[i]);
    if (!is_replaced) copy.keep(graph.nodes[i]);
  }
  return prune(copy.finish());
}

Graph prune(const Graph& graph) {
  std::vector<bool> needed(graph.tensors.size());
  for (const auto& [name, id] : graph.outputs) needed[id.index] = true;
  std::vector<bool> stays(graph.nodes.size());
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    stays[i] = node.op->side_effects();
    for (const TensorId id : node.outputs) stays[i] = stays[i] || needed[id.index];
    if (!stays[i]) continue;
    for (const TensorId id : node.inputs) {
      if (id) needed[id.index] = true;
    }
  }
  Graph out;
  std::vector<TensorId> here(graph.tensors.size());
  for (std::uint32_t i = 0; i < graph.tensors.size(); ++i) {
    const Tensor& t = graph.tensors[i];
    if (t.role != Role::kActivation && (needed[i] || t.role == Role::kInput)) here[i] = out.add(t);
  }
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!stays[i]) continue;
    Node copy = graph.nodes[i];
    std::vector<std::string> names;
    for (const TensorId id : copy.outputs) names.push_back(graph.at(id).name);
    for (TensorId& id : copy.inputs) id = id ? here[id.index] : id;
    copy.outputs.clear();
    const NodeId id = out.append(std::move(copy), std::move(names));
    for (std::size_t k = 0; k < out.at(id).outputs.size(); ++k) {
      here[graph.nodes[i].outputs[k].index] = out.at(id).outputs[k];
    }
  }
  for (const auto& [name, id] : graph.outputs) out.outputs.emplace_back(name, here[id.index]);
  return out;
}

Graph find_patterns(Graph graph) {
  graph = prune(graph);
  graph = find_norms(std::move(graph));
  graph = find_activations(graph);
  graph = find_bias(graph);
  graph = find_attention(graph);
  return find_fused_norms(graph);
}

}  // namespace neap::onnx
