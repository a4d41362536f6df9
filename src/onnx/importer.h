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

  std::vector<Operand> run_subgraph(const pb::NodeProto& node, const pb::GraphProto& graph,
                                    std::vector<Operand> operands, Target& target);
  // Called for every node of Neap's; UserError when they are too many.
  void count_made();

 private:
  using Names = std::map<std::string, Operand>;
  struct Scope {
    Names names;
    std::set<std::string> later;  // names that nodes not yet reached will define
  };

  void add_initializers(const pb::GraphProto& graph, Names& names, bool trains);
  void add_inputs(const pb::GraphProto& graph, const std::map<std::string, Shape>& shapes);
  void import_nodes(const pb::GraphProto& graph, Target& target);
  void import_node(const pb::NodeProto& node, Target& target);
  std::vector<Operand> operands_of(const pb::NodeProto& node) const;
  std::vector<Operand> run_rule(const RuleEntry& rule, const pb::NodeProto& node, const std::vector<Operand>& operands,
                                Target& target);
  bool fold(const RuleEntry& rule, const pb::NodeProto& node, const std::vector<Operand>& operands,
            std::vector<Operand>& out);
  const Operand* find(const std::string& name) const;
  int opset_of(const std::string& domain) const;
  void define(const pb::NodeProto& node, std::vector<Operand> outputs);
  void add_problem(const pb::NodeProto& node, const std::string& why);

  const pb::ModelProto& model_;
  std::shared_ptr<const void> owner_;
  ExternalFiles& files_;
  ImportOptions options_;
  Target target_;
  std::vector<Scope> scopes_;
  std::map<const pb::GraphProto*, Names> initializers_;  // of subgraphs, read once for all runs of a loop
  std::vector<std::string> inside_;                      // labels of the nodes whose subgraphs are being imported
  std::vector<std::string> problems_;
  std::set<std::string> known_problems_;
  std::set<std::string> not_constant_;
  std::int64_t imported_ = 0;
  std::int64_t made_ = 0;
  std::int64_t folded_bytes_ = 0;
  double folded_work_ = 0;
};

// What a person calls the node.
std::string label_of(const pb::NodeProto& node);

}  // namespace neap::onnx
