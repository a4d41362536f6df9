// From the nodes of an ONNX graph to nodes of Neap's, in one pass: rules node by node, constants folded on the way.
//
// All sizes are numbers when this runs: symbols of the model's inputs are bound first. That is what makes the shape
// arithmetic of exported models vanish.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "neap/error.h"
#include "onnx/context.h"

namespace neap::onnx {

struct ImportOptions {
  bool widen = true;                      // half, bfloat16 and double become f32
  std::optional<bool> frozen_batch_norm;  // not given: as each node's training_mode says
  std::map<std::string, Constant> known;  // inputs whose values are known beforehand
  std::int64_t fold_bytes = 64LL << 20;   // larger constants are left to the graph
};

// All that cannot be imported, at once.
struct ImportError : UserError {
  ImportError(const std::string& what, std::set<std::string> operands)
      : UserError(what), not_constant(std::move(operands)) {}
  std::set<std::string> not_constant;  // operands that had to be known beforehand
};

class Importer {
 public:
  // Model and files outlive the importer; `owner` keeps the model alive for as long as the graph needs its bytes.
  Importer(const pb::ModelProto& model, std::shared_ptr<const void> owner, ExternalFiles& files, Builder& g,
           ImportOptions options);

  // The shapes of inputs, as numbers, by name.
  void run(const std::map<std::string, Shape>& input_shapes);

  // A result with its axes in this order; empty: ONNX's.
  Value result(const std::string& name, const Perm& perm = {});
  const Operand& operand(const std::string& name) const;
  const ImportOptions& options() const { return options_; }
  Builder& builder() { return target_.g; }
  // Weights that became parameters or buffers.
  const std::vector<std::shared_ptr<Weight>>& weights() const { return weights_; }

  std::vector<Operand> run_subgraph(const pb::GraphProto& graph, std::vector<Operand> operands, Target& target);

 private:
  using Names = std::map<std::string, Operand>;

  void add_initializers(const pb::GraphProto& graph, Names& names, bool trains);
  void add_inputs(const pb::GraphProto& graph, const std::map<std::string, Shape>& shapes);
  void import_nodes(const pb::GraphProto& graph, Target& target);
  void import_node(const pb::NodeProto& node, Target& target);
  std::vector<Operand> operands_of(const pb::NodeProto& node, const pb::GraphProto* later) const;
  std::vector<Operand> run_rule(const RuleEntry& rule, const pb::NodeProto& node, const std::vector<Operand>& operands,
                                Target& target);
  bool fold(const RuleEntry& rule, const pb::NodeProto& node, const std::vector<Operand>& operands,
            std::vector<Operand>& out);
  const Operand* find(const std::string& name) const;
  int opset_of(const std::string& domain) const;
  void define(const pb::NodeProto& node, std::vector<Operand> outputs);

  const pb::ModelProto& model_;
  std::shared_ptr<const void> owner_;
  ExternalFiles& files_;
  ImportOptions options_;
  Target target_;
  std::vector<Names> scopes_;
  std::vector<std::shared_ptr<Weight>> weights_;
  std::vector<std::string> problems_;
  std::set<std::string> not_constant_;
  std::set<std::string> later_;  // names that nodes not yet reached will define
  std::int64_t imported_ = 0;
};

// What a person calls the node.
std::string label_of(const pb::NodeProto& node);

}  // namespace neap::onnx
