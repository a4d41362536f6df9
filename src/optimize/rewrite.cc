#include "optimize/rewrite.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "graph/op.h"
#include "neap/error.h"

namespace neap {

std::vector<std::vector<NodeId>> readers_of(const Graph& graph) {
  std::vector<std::vector<NodeId>> out(graph.tensors.size());
  for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
    for (const TensorId id : graph.nodes[i].inputs) {
      if (id) out[id.index].push_back({i});
    }
  }
  return out;
}

bool is_output(const Graph& graph, TensorId id) {
  return std::any_of(graph.outputs.begin(), graph.outputs.end(), [&](const auto& out) { return out.second == id; });
}

void Rewrite::put(NodeId before, Node node, std::vector<TensorId> stands_for) {
  added_.emplace(before.index, New{std::move(node), std::move(stands_for)});
}

Graph Rewrite::finish() const {
  Graph out;
  std::vector<TensorId> now(graph_.tensors.size() + fresh_);
  const auto name_of = [&](TensorId id) {
    return id.index < graph_.tensors.size() ? graph_.at(id).name : fmt::format("fresh {}", id.index);
  };
  for (std::uint32_t i = 0; i < graph_.tensors.size(); ++i) {
    if (!graph_.tensors[i].producer) now[i] = out.add(graph_.tensors[i]);
  }
  const auto meant = [&](TensorId id) {
    for (auto it = aliases_.find(id.index); it != aliases_.end(); it = aliases_.find(id.index)) id = it->second;
    return id;
  };
  const auto append = [&](Node node, const std::vector<TensorId>& stands_for) {
    for (TensorId& id : node.inputs) {
      if (!id) continue;
      id = meant(id);
      if (!now[id.index]) {
        throw InternalError(fmt::format("'{}' reads '{}', which was left out", node.name, name_of(id)));
      }
      id = now[id.index];
    }
    std::vector<std::string> names;
    for (std::size_t i = 0; i < stands_for.size(); ++i) {
      const bool is_old = stands_for[i] && stands_for[i].index < graph_.tensors.size();
      names.push_back(is_old ? graph_.at(stands_for[i]).name : fmt::format("{}:{}", node.name, i));
    }
    const NodeId at = out.append(std::move(node), std::move(names));
    for (std::size_t i = 0; i < stands_for.size(); ++i) {
      if (stands_for[i]) now[stands_for[i].index] = out.at(at).outputs[i];
    }
  };
  for (std::uint32_t i = 0; i < graph_.nodes.size(); ++i) {
    const auto [first, last] = added_.equal_range(i);
    for (auto it = first; it != last; ++it) append(it->second.node, it->second.stands_for);
    if (!removed_[i]) append(graph_.nodes[i], graph_.nodes[i].outputs);
  }
  for (const auto& [label, id] : graph_.outputs) out.outputs.emplace_back(label, now[meant(id).index]);
  verify(out);
  return out;
}

std::vector<NodeId> counterparts(const Graph& from, const Graph& to) {
  const auto readers = readers_of(from);
  std::map<std::string_view, NodeId> by_name;
  for (std::uint32_t i = 0; i < to.nodes.size(); ++i) by_name.emplace(to.nodes[i].name, NodeId{i});
  std::vector<NodeId> out(from.nodes.size());
  for (std::size_t i = from.nodes.size(); i-- > 0;) {
    if (const auto same = by_name.find(from.nodes[i].name); same != by_name.end()) out[i] = same->second;
    for (const TensorId id : from.nodes[i].outputs) {
      const auto same = id && !out[i] ? to.find(from.at(id).name) : std::nullopt;
      if (same && to.at(*same).producer) out[i] = to.at(*same).producer;
    }
    for (const TensorId id : from.nodes[i].outputs) {
      for (const NodeId reader : id ? readers[id.index] : std::vector<NodeId>{}) {
        if (!out[i]) out[i] = out[reader.index];
      }
    }
    require(static_cast<bool>(out[i]) || i + 1 < from.nodes.size(), "the last node's work is done");
    if (!out[i]) out[i] = out[i + 1];
  }
  return out;
}

}  // namespace neap
