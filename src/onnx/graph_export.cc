#include "onnx/graph_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "graph/op.h"
#include "neap/error.h"
#include "neap/onnx.h"
#include "onnx/onnx_model.h"

namespace neap::onnx {
namespace {

constexpr std::int64_t kOpset = 17;
constexpr std::int64_t kIrVersion = 8;
constexpr std::string_view kLosses[] = {"cross_entropy", "nll_loss", "mse", "l1_loss", "smooth_l1", "bce_with_logits"};
constexpr std::size_t kMaxProblemsShown = 20;

// Nodes that the result needs, in program order.
std::vector<const Node*> nodes_for(const Graph& graph, Value result) {
  std::set<Value> needed = {result};
  std::vector<const Node*> out;
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const Node* node = &graph.nodes[i];
    const bool is_needed =
        std::any_of(node->outputs.begin(), node->outputs.end(), [&](Value v) { return needed.contains(v); });
    if (!is_needed) continue;
    out.push_back(node);
    for (const Value v : node->inputs) {
      if (v) needed.insert(v);
    }
  }
  std::reverse(out.begin(), out.end());
  return out;
}

void add_inputs(Emitter& e, Value result) {
  for (const Value v : e.graph().with_role(Role::kInput)) {
    if (e.readers(v) > 0 || v == result) e.input(v);
  }
}

// Runs the rules; what went wrong, once a cause.
std::vector<std::string> write_nodes(Emitter& e) {
  std::vector<std::string> problems;
  std::set<Value> failed;
  for (const Node* node : e.nodes()) {
    const bool is_lost =
        std::any_of(node->inputs.begin(), node->inputs.end(), [&](Value v) { return failed.contains(v); });
    try {
      const EmitRule rule = find_emit_rule(node->op->name);
      if (rule == nullptr) throw UserError("ONNX has nothing for it");
      e.begin(node->name);
      if (!is_lost) rule(e, *node);
      if (!is_lost) continue;
    } catch (const UserError& error) {
      problems.push_back(fmt::format("node '{}' ({}): {}", node->name, node->op->name, error.what()));
    }
    failed.insert(node->outputs.begin(), node->outputs.end());
  }
  return problems;
}

void refuse(const std::vector<std::string>& problems) {
  if (problems.empty()) return;
  std::string all;
  const std::size_t shown = std::min(problems.size(), kMaxProblemsShown);
  for (std::size_t i = 0; i < shown; ++i) all += (i == 0 ? "" : "; ") + problems[i];
  if (shown < problems.size()) all += fmt::format("; and {} more", problems.size() - shown);
  throw UserError(all);
}

// Recurrent models have time in front.
Perm batch_first(const Shape& shape) {
  const Dim batch = Dim::symbol("batch");
  int at = 0;
  while (at < shape.rank() && !(shape[at] == batch)) ++at;
  Perm out;
  if (at < shape.rank()) out.push_back(at);
  for (int i = 0; i < shape.rank(); ++i) {
    if (i != at) out.push_back(i);
  }
  return out;
}

void add_result(Emitter& e, Value result, pb::GraphProto& out) {
  e.begin("logits");
  const Tensor& t = e.graph().at(result);
  const Perm perm = batch_first(t.type.shape);
  std::string name = e.moved(result, perm);
  const bool is_own = std::any_of(out.node().begin(), out.node().end(), [&](const pb::NodeProto& node) {
    return std::find(node.output().begin(), node.output().end(), name) != node.output().end();
  });
  if (!is_own) name = e.add("Identity", {name});
  e.rename(name, "logits");
  pb::ValueInfoProto& info = *out.add_output();
  info.set_name("logits");
  set_type(info, {t.type.dtype, permuted(t.type.shape, perm)});
}

// The bytes of a weight with its blocks in the order that the source says.
std::string filled(const pb::TensorProto& t, const Source& source, const WeightReader& weight) {
  const std::span<const std::byte> bytes = weight(source.weight);
  const auto wanted = static_cast<std::size_t>(shape_of(t).count()) * sizeof(float);
  if (bytes.size() != wanted) {
    throw UserError(fmt::format("weight '{}' has {} bytes, the model wants {}", source.weight, bytes.size(), wanted));
  }
  const auto* from = reinterpret_cast<const char*>(bytes.data());
  if (source.blocks.empty()) return {from, bytes.size()};
  const std::size_t size = bytes.size() / source.blocks.size();
  std::string out;
  out.reserve(bytes.size());
  for (const std::size_t block : source.blocks) out.append(from + block * size, size);
  return out;
}

}  // namespace

std::optional<Value> logits_of(const Graph& graph) {
  if (const auto named = graph.output("logits")) return named;
  const auto loss = graph.output("loss");
  if (!loss || !graph.at(*loss).producer) return std::nullopt;
  const Node& node = graph.at(graph.at(*loss).producer);
  const bool is_known = std::find(std::begin(kLosses), std::end(kLosses), node.op->name) != std::end(kLosses);
  return is_known ? std::optional(node.inputs[0]) : std::nullopt;
}

ExportedGraph export_graph(const Graph& graph, const std::string& name) {
  const auto result = logits_of(graph);
  if (!result) throw UserError("the model has no result named 'logits'");
  ExportedGraph out;
  out.model.set_ir_version(kIrVersion);
  out.model.set_producer_name("neap");
  out.model.add_opset_import()->set_version(kOpset);
  pb::GraphProto& proto = *out.model.mutable_graph();
  proto.set_name(name);
  Emitter e(graph, nodes_for(graph, *result), *result, proto);
  add_inputs(e, *result);
  refuse(write_nodes(e));
  add_result(e, *result, proto);
  out.sources = e.sources();
  return out;
}

}  // namespace neap::onnx

namespace neap {

void save_onnx(const Model& model, const BuildRequest& request, const std::string& path, const WeightReader& weight) {
  BuildRequest evaluation = request;
  evaluation.mode = Mode::kEvaluation;
  Builder g(Mode::kEvaluation);
  model.build(g, evaluation);
  onnx::ExportedGraph out;
  try {
    out = onnx::export_graph(g.take(), model.name());
  } catch (const UserError& e) {
    throw UserError(fmt::format("'{}': the model '{}' cannot be written as ONNX: {}", path, model.name(), e.what()));
  }
  onnx::write_filled(out.model, path, [&](const onnx::pb::TensorProto& t) {
    const auto source = out.sources.find(t.name());
    return source == out.sources.end() ? t.raw_data() : onnx::filled(t, source->second, weight);
  });
}

}  // namespace neap
