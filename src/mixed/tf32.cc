#include "mixed/tf32.h"

#include <algorithm>
#include <array>

#include "graph/op.h"
#include "ops/product_math.h"

namespace neap {
namespace {

constexpr std::array<std::string_view, 19> kOps = {
    "linear",     "linear_grad_weight", "linear_add_weight", "matmul",         "gemm",
    "conv",       "conv_grad_weight",   "conv_add_weight",   "conv_grad_data", "conv_transpose",
    "vocab_loss", "vocab_delta",        "vocab_weight",      "lstm_chunk",     "lstm_chunk_grad",
    "gru_chunk",  "gru_chunk_grad",     "rnn_chunk",         "rnn_chunk_grad"};

// Input 0 of a chunk's gradient may be missing.
bool is_of_f32(const Graph& graph, const Node& node) {
  return std::all_of(node.outputs.begin(), node.outputs.end(),
                     [&](TensorId id) { return !id || graph.at(id).type.dtype == DType::kF32; });
}

}  // namespace

std::span<const std::string_view> ops_of_tf32() { return kOps; }

Graph with_tf32(Graph graph) {
  for (Node& node : graph.nodes) {
    const bool knows_it = std::find(kOps.begin(), kOps.end(), node.op->name) != kOps.end();
    if (knows_it && is_of_f32(graph, node)) ops::set_tf32(node.attrs);
  }
  return graph;
}

}  // namespace neap
