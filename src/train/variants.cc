#include "train/variants.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/op.h"
#include "neap/error.h"
#include "recurrent/gear.h"

namespace neap {
namespace {

std::int64_t booked_steps(const Gear& gear) {
  return gear.kind == Gear::Kind::kRolled ? 1 : static_cast<std::int64_t>(gear.steps);
}

}  // namespace

bool is_chunk(const Node& node) {
  return node.op->name == "lstm_chunk" || node.op->name == "gru_chunk" || node.op->name == "rnn_chunk";
}

std::vector<Variant> variants_of(const TrainOptions& options, const Graph& graph) {
  const RecurrentTraining& o = options.recurrent;
  const bool is_adaptive = o.gear == "adaptive";
  const std::int64_t unroll = is_adaptive ? 0 : booked_steps(parse_gear(o.gear));
  const bool by_cudnn = o.gates == "cudnn";
  if (o.gates != "adaptive" && o.gates != "keep" && o.gates != "recompute" && !by_cudnn) {
    throw UserError(fmt::format("--gates '{}': take adaptive, keep, recompute or cudnn", o.gates));
  }
  if (by_cudnn && options.device == "cpu") throw UserError("--gates cudnn is for --device cuda");
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), is_chunk)) return {{}};
  if (o.gates != "adaptive") return {{o.gates == "keep" || by_cudnn, unroll, by_cudnn}};
  // The other policies do what they say and no more; levels are of one program's tensors; on CUDA gates are kept unless
  // it is said otherwise, since products over other rows have other bits there.
  const bool is_joint = options.policy == "adaptive" || options.policy == "oracle";
  const bool is_free = is_joint && options.precision.tolerance == "exact" && options.device != "cuda";
  if (!is_free) return {{true, unroll}};
  std::vector<Variant> out = {{true, unroll}, {false, unroll}};
  if (is_adaptive) out.push_back({false, 1});  // the least that a layer can do with
  return out;
}

namespace {

// cuDNN's keeps neither gates nor cells.
void infer_again(const Node& node, Graph& graph) {
  OpCall call = call_of(graph, node);
  call.outputs.clear();
  const Types types = node.op->infer(call);
  for (std::size_t i = 0; i < types.size(); ++i) graph.at(node.outputs[i]).type = types[i];
}

}  // namespace

void apply(const Variant& variant, Graph& forward) {
  for (Node& node : forward.nodes) {
    if (!is_chunk(node)) continue;
    if (variant.unroll > 0) node.attrs.set("unroll", variant.unroll);
    if (!variant.keeps_gates) node.attrs.set("gates", std::string("recompute"));
    if (variant.by_cudnn && node.op->name == "lstm_chunk") {
      node.attrs.set("gates", std::string("cudnn"));
      infer_again(node, forward);
    }
  }
}

}  // namespace neap
