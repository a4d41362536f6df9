// Nodes whose operands are all known are run when the graph is built: that is where shape arithmetic goes.
#include <algorithm>

#include "graph/op.h"
#include "onnx/importer.h"
#include "onnx/limits.h"
#include "ops/evaluate.h"

namespace neap::onnx {
namespace {

// What running a graph costs.
struct Cost {
  std::int64_t bytes = 0;  // of what its nodes make
  double work = 0;         // multiply-adds and words moved
};

Cost cost_of(const Graph& graph) {
  Cost out;
  for (const Node& node : graph.nodes) {
    const OpCall call = call_of(graph, node);
    for (const TensorType& t : call.outputs) {
      if (__builtin_add_overflow(out.bytes, t.bytes(), &out.bytes)) out.bytes = INT64_MAX;
    }
    out.work += flops_of(call) + traffic_of(call) / static_cast<double>(sizeof(float));
  }
  return out;
}

}  // namespace

bool Importer::fold(const RuleEntry& rule, const pb::NodeProto& node, const std::vector<Operand>& operands,
                    std::vector<Operand>& out) {
  Builder g;
  Target scratch{.g = g};
  out = run_rule(rule, node, operands, scratch);
  std::vector<Value> values;
  const pb::NodeProto none;
  Context c(none, 0, {}, scratch, this);
  for (const Operand& x : out) values.push_back(x.value ? c.moved(x, {}) : Value{});
  if (std::none_of(values.begin(), values.end(), [](Value v) { return static_cast<bool>(v); })) return true;
  const Graph graph = g.take();
  if (graph.find(kRandomInput)) return false;
  const Cost cost = cost_of(graph);
  const bool is_small = cost.bytes <= kAlwaysFolded && cost.work <= static_cast<double>(kAlwaysFolded);
  const bool is_affordable = cost.bytes <= std::min(options_.fold_bytes, kMaxFoldedBytes - folded_bytes_) &&
                             cost.work <= static_cast<double>(kMaxFoldedWork) - folded_work_;
  if (!is_small && !is_affordable) return false;
  folded_work_ += cost.work;
  std::vector<HostTensor> results = evaluate(graph, {});
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!values[i]) continue;
    HostTensor& r = results[values[i].index];
    folded_bytes_ += r.type.bytes();
    const auto constant = std::make_shared<const Constant>(Constant{.type = r.type, .data = Blob::of(r.data)});
    out[i] = {.type = r.type, .constant = constant};
  }
  return true;
}

}  // namespace neap::onnx
