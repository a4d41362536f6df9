// The graph: tensors, each written by at most one node, and nodes in program order.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/id.h"
#include "neap/builder.h"

namespace neap {

struct OpDef;

using TensorId = Value;
using NodeId = Id<struct NodeTag>;

enum class Role : std::uint8_t {
  kActivation,  // written by a node
  kInput,       // written before each step: data, learning rate, random key
  kParameter,   // trained; state
  kBuffer,      // kept from step to step, changed by nodes only (running statistics); state
  kOptimizer,   // moments and the like; state
  kConstant,
};

std::string_view name(Role role);
inline bool is_state(Role role) { return role != Role::kActivation && role != Role::kInput; }

enum class Phase : std::uint8_t { kForward, kBackward, kUpdate };

struct Tensor {
  std::string name;
  TensorType type;
  Role role = Role::kActivation;
  NodeId producer;
  bool trainable = false;  // parameters only
  Init init;
  std::shared_ptr<const Blob> data;  // of a constant; of state whose first values come from outside
  std::vector<int> outside_axes;     // axis i of the shape outside is axis outside_axes[i] here; empty: the same
};

struct Node {
  const OpDef* op = nullptr;
  std::string name;
  std::string layer;             // the scope it was made in, or its own name
  std::vector<TensorId> inputs;  // a default id: not given
  std::vector<TensorId> outputs;
  Attrs attrs;
  Phase phase = Phase::kForward;
};

using Bindings = std::map<std::string, std::int64_t>;

class Graph {
 public:
  std::vector<Tensor> tensors;
  std::vector<Node> nodes;
  std::vector<std::pair<std::string, TensorId>> outputs;

  const Tensor& at(TensorId id) const { return tensors.at(id.index); }
  Tensor& at(TensorId id) { return tensors.at(id.index); }
  const Node& at(NodeId id) const { return nodes.at(id.index); }
  std::optional<TensorId> find(std::string_view name) const;
  std::optional<TensorId> output(std::string_view name) const;
  std::vector<TensorId> with_role(Role role) const;

  // Appends a tensor; its name must be new.
  TensorId add(Tensor tensor);
  // Appends a node with inferred outputs; UserError names op, node and shapes when they do not fit.
  NodeId append(Node node, std::vector<std::string> output_names = {});
  bool has_name(const std::string& name) const { return names_.contains(name); }

 private:
  std::unordered_map<std::string, TensorId> names_;
};

// The same graph with symbols replaced by numbers, shapes inferred anew.
Graph bind(const Graph& graph, const Bindings& values);

// Checks what every pass relies on: order, types, names, roles. InternalError names the node.
void verify(const Graph& graph);

// The text form, and back. print(parse(print(g))) == print(g).
std::string print(const Graph& graph);
Graph parse_graph(std::string_view text);

}  // namespace neap
