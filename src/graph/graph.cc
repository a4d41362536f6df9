#include "graph/graph.h"

#include <fmt/format.h>

#include "graph/op.h"
#include "neap/error.h"

namespace neap {

std::string_view name(Role role) {
  switch (role) {
    case Role::kActivation: return "activation";
    case Role::kInput: return "input";
    case Role::kParameter: return "param";
    case Role::kBuffer: return "buffer";
    case Role::kOptimizer: return "optimizer";
    case Role::kConstant: return "constant";
  }
  return "?";
}

std::string TensorType::text() const { return fmt::format("{}{}", neap::name(dtype), shape.text()); }

std::optional<TensorId> Graph::find(std::string_view name) const {
  const auto at = names_.find(std::string(name));
  return at == names_.end() ? std::nullopt : std::optional(at->second);
}

std::optional<TensorId> Graph::output(std::string_view name) const {
  for (const auto& [label, id] : outputs) {
    if (label == name) return id;
  }
  return std::nullopt;
}

std::vector<TensorId> Graph::with_role(Role role) const {
  std::vector<TensorId> out;
  for (std::uint32_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].role == role) out.push_back({i});
  }
  return out;
}

TensorId Graph::add(Tensor tensor) {
  const TensorId id{static_cast<std::uint32_t>(tensors.size())};
  if (!names_.emplace(tensor.name, id).second) {
    throw UserError(fmt::format("tensor '{}' is defined twice", tensor.name));
  }
  tensors.push_back(std::move(tensor));
  return id;
}

NodeId Graph::append(Node node, std::vector<std::string> output_names) {
  require(node.op != nullptr, "a node needs an op");
  node.outputs.clear();
  OpCall call = call_of(*this, node);
  Types types;
  try {
    types = node.op->infer(call);
  } catch (const UserError& e) {
    std::string shapes;
    for (const auto& t : call.inputs) shapes += (shapes.empty() ? "" : ", ") + (t ? t->text() : std::string("none"));
    throw UserError(fmt::format("{} '{}' ({}): {}", node.op->name, node.name, shapes, e.what()));
  }
  const NodeId id{static_cast<std::uint32_t>(nodes.size())};
  for (std::size_t i = 0; i < types.size(); ++i) {
    std::string label = i < output_names.size() ? output_names[i]
                        : i == 0                ? node.name
                                                : fmt::format("{}:{}", node.name, i);
    node.outputs.push_back(add({.name = std::move(label), .type = std::move(types[i]), .producer = id}));
  }
  nodes.push_back(std::move(node));
  return id;
}

const TensorType& OpCall::in(std::size_t i) const {
  if (!has(i)) throw UserError(fmt::format("input {} is missing", i));
  return *inputs[i];
}

OpCall call_of(const Graph& graph, const Node& node) {
  OpCall call{.op = node.op, .attrs = node.attrs};
  for (const TensorId id : node.inputs) {
    call.inputs.push_back(id ? std::optional(graph.at(id).type) : std::nullopt);
  }
  for (const TensorId id : node.outputs) call.outputs.push_back(graph.at(id).type);
  return call;
}

double flops_of(const OpCall& call) {
  if (call.op->flops != nullptr) return call.op->flops(call);
  return call.outputs.empty() ? 0 : static_cast<double>(call.outputs[0].elements());
}

double traffic_of(const OpCall& call) {
  if (call.op->traffic != nullptr) return call.op->traffic(call);
  double bytes = 0;
  for (const auto& t : call.inputs) bytes += t ? static_cast<double>(t->bytes()) : 0;
  for (const TensorType& t : call.outputs) bytes += static_cast<double>(t.bytes());
  return bytes;
}

const OpDef& op_named(std::string_view name) {
  const OpDef* op = find_op(name);
  if (op == nullptr) throw UserError(fmt::format("there is no op '{}'", name));
  return *op;
}

Graph bind(const Graph& graph, const Bindings& values) {
  Graph out;
  std::vector<TensorId> renamed(graph.tensors.size());
  const auto place_leaf = [&](std::uint32_t i) {
    Tensor leaf = graph.tensors[i];
    leaf.type.shape = leaf.type.shape.bind(values);
    renamed[i] = out.add(std::move(leaf));
  };
  for (std::uint32_t i = 0; i < graph.tensors.size(); ++i) {
    if (!graph.tensors[i].producer) place_leaf(i);
  }
  for (const Node& node : graph.nodes) {
    Node copy = node;
    for (TensorId& id : copy.inputs) {
      if (id) id = renamed[id.index];
    }
    Attrs attrs;
    for (const auto& [key, value] : node.attrs) {
      const Shape* shape = std::get_if<Shape>(&value);
      attrs.set(key, shape != nullptr ? AttrValue(shape->bind(values)) : value);
    }
    copy.attrs = std::move(attrs);
    std::vector<std::string> names;
    for (const TensorId id : node.outputs) names.push_back(graph.at(id).name);
    const NodeId at = out.append(std::move(copy), std::move(names));
    for (std::size_t i = 0; i < node.outputs.size(); ++i) renamed[node.outputs[i].index] = out.at(at).outputs[i];
  }
  for (const auto& [label, id] : graph.outputs) out.outputs.emplace_back(label, renamed[id.index]);
  return out;
}

namespace {

void verify_inputs(const Graph& graph, const Node& node, const std::vector<bool>& defined) {
  for (const TensorId id : node.inputs) {
    if (id && id.index >= graph.tensors.size()) {
      throw InternalError(fmt::format("node '{}' reads tensor {}, which does not exist", node.name, id.index));
    }
    if (id && !defined[id.index]) {
      throw InternalError(fmt::format("node '{}' reads '{}' before it is written", node.name, graph.at(id).name));
    }
  }
  for (const std::uint8_t i : node.op->mutates) {
    if (i < node.inputs.size() && node.inputs[i] && !is_state(graph.at(node.inputs[i]).role)) {
      throw InternalError(
          fmt::format("node '{}' changes '{}', which is no state", node.name, graph.at(node.inputs[i]).name));
    }
  }
}

void verify_outputs(const Graph& graph, NodeId at, std::vector<bool>& defined) {
  const Node& node = graph.at(at);
  OpCall call = call_of(graph, node);
  call.outputs.clear();
  const Types types = node.op->infer(call);
  if (types.size() != node.outputs.size()) {
    throw InternalError(
        fmt::format("node '{}' has {} outputs, its op says {}", node.name, node.outputs.size(), types.size()));
  }
  for (std::size_t i = 0; i < types.size(); ++i) {
    const Tensor& t = graph.at(node.outputs[i]);
    if (t.producer != at || defined[node.outputs[i].index]) {
      throw InternalError(fmt::format("node '{}' writes '{}', which is not its own", node.name, t.name));
    }
    if (!(types[i] == t.type)) {
      throw InternalError(
          fmt::format("output {} of node '{}' is {}, its op says {}", i, node.name, t.type.text(), types[i].text()));
    }
    defined[node.outputs[i].index] = true;
  }
}

}  // namespace

void verify(const Graph& graph) {
  std::vector<bool> defined(graph.tensors.size());
  for (std::uint32_t i = 0; i < graph.tensors.size(); ++i) {
    const Tensor& t = graph.tensors[i];
    defined[i] = !t.producer && t.role != Role::kActivation;
    if (graph.find(t.name) != TensorId{i}) throw InternalError(fmt::format("two tensors are named '{}'", t.name));
  }
  for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
    verify_inputs(graph, graph.nodes[i], defined);
    verify_outputs(graph, NodeId{i}, defined);
  }
  for (const auto& [label, id] : graph.outputs) {
    if (id.index >= defined.size() || !defined[id.index]) {
      throw InternalError(fmt::format("output '{}' is never written", label));
    }
  }
}

}  // namespace neap
