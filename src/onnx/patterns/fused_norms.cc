#include "onnx/patterns/match.h"
#include "onnx/patterns/patterns.h"

namespace neap::onnx {
namespace {

// relu(batch_norm(x)) and relu(batch_norm(x) + residual).
std::optional<Replacement> rule(const Match& m, const Node& node) {
  if (node.op->name != "relu") return std::nullopt;
  const auto is_plain = [&](TensorId id) -> const Node* {
    const Node* norm = m.from(id, "batch_norm_apply");
    const bool fits = norm != nullptr && m.readers(id) == 1 && norm->attrs.integer("relu", 0) == 0 &&
                      (norm->inputs.size() < 6 || !norm->inputs[5]);
    return fits ? norm : nullptr;
  };
  const TensorId x = node.inputs[0];
  const Node* norm = is_plain(x);
  TensorId residual;
  if (norm == nullptr && m.readers(x) == 1) {
    const Node* sum = m.from(x, "add");
    for (const std::size_t i : {0UL, 1UL}) {
      if (sum == nullptr || norm != nullptr) break;
      if (!(m.shape(sum->inputs[0]) == m.shape(sum->inputs[1]))) break;
      norm = is_plain(sum->inputs[i]);
      residual = sum->inputs[1 - i];
    }
  }
  if (norm == nullptr) return std::nullopt;
  Node whole{.op = norm->op, .inputs = norm->inputs, .attrs = norm->attrs};
  whole.attrs.set("relu", std::int64_t{1});
  whole.inputs.resize(5);
  if (residual) whole.inputs.push_back(residual);
  return Replacement{.nodes = {whole}, .outputs = {{0, 0}, {0, 1}}};
}

}  // namespace

Graph find_fused_norms(const Graph& graph) { return rewrite(graph, rule); }

}  // namespace neap::onnx
