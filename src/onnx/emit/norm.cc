// Normalisations.
#include <vector>

#include "graph/op.h"
#include "neap/error.h"
#include "onnx/emit/emitter.h"

namespace neap::onnx {
namespace {

// Part of the BatchNormalization that reads them.
void frozen_stats(Emitter& /*e*/, const Node& /*node*/) {}

void batch_norm_apply(Emitter& e, const Node& node) {
  const Node* stats = e.producer(node.inputs[1]);
  const bool is_frozen = stats != nullptr && stats->op->name == "frozen_stats" && e.producer(node.inputs[2]) == stats;
  if (!is_frozen) throw UserError("it uses other statistics than the running ones");
  const Perm first = channels_first(e.rank(node.inputs[0]));
  const Names x = {e.moved(node.inputs[0], first), e.in(node.inputs[3]), e.in(node.inputs[4]), e.in(stats->inputs[0]),
                   e.in(stats->inputs[1])};
  std::string y = e.add("BatchNormalization", x, {{"epsilon", stats->attrs.real("epsilon", 1e-5)}});
  const bool has_residual = node.inputs.size() > 5 && node.inputs[5];
  if (has_residual) y = e.add("Add", {y, e.moved(node.inputs[5], first)});
  if (node.attrs.integer("relu", 0) != 0) y = e.add("Relu", {y});
  e.out(node.outputs[0], y, first);
}

void layer_norm(Emitter& e, const Node& node) {
  const Shape& shape = e.shape(node.inputs[0]);
  const std::int64_t axis = axis_there(node.attrs.integer("axis", -1), {}, shape.rank());
  Names x = {e.in(node.inputs[0])};
  if (node.inputs.size() > 1 && node.inputs[1]) {
    x.push_back(e.in(node.inputs[1]));
  } else {
    Shape inner;
    for (int i = static_cast<int>(axis); i < shape.rank(); ++i) inner.push_back(shape[i]);
    const std::vector<float> ones(static_cast<std::size_t>(inner.count()), 1.0F);
    x.push_back(e.constant(node.name + ".ones", {DType::kF32, inner}, std::as_bytes(std::span(ones))));
  }
  if (node.inputs.size() > 2 && node.inputs[2]) x.push_back(e.in(node.inputs[2]));
  const Attrs attrs = {{"axis", axis}, {"epsilon", node.attrs.real("epsilon", 1e-5)}};
  e.out(node.outputs[0], e.add("LayerNormalization", x, attrs));
}

void along_axis(Emitter& e, const Node& node, const char* op) {
  const MadePtr x = e.made(node.inputs[0]);
  const std::int64_t axis = axis_there(node.attrs.integer("axis", -1), x->axes, x->shape.rank());
  e.out(node.outputs[0], e.add(op, {x->name}, {{"axis", axis}}), x->axes);
}

void softmax(Emitter& e, const Node& node) { along_axis(e, node, "Softmax"); }
void log_softmax(Emitter& e, const Node& node) { along_axis(e, node, "LogSoftmax"); }

constexpr EmitEntry kRules[] = {{"frozen_stats", frozen_stats},
                                {"batch_norm_apply", batch_norm_apply},
                                {"layer_norm", layer_norm},
                                {"softmax", softmax},
                                {"log_softmax", log_softmax}};

}  // namespace

std::span<const EmitEntry> emit_norm() { return kRules; }

}  // namespace neap::onnx
