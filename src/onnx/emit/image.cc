// Convolution and pooling: channels first in ONNX, and so from one of them to the next.
#include <algorithm>

#include "graph/op.h"
#include "neap/error.h"
#include "onnx/emit/emitter.h"

namespace neap::onnx {
namespace {

// strides, pads and dilations, always written.
Attrs window(const Node& node, const Ints& kernel) {
  const std::size_t axes = kernel.size();
  const Ints pads = node.attrs.ints("pads", Ints(2 * axes, 0));
  if (std::any_of(pads.begin(), pads.end(), [](std::int64_t p) { return p < 0; })) {
    throw UserError("pads that crop have no form in ONNX");
  }
  if (node.attrs.integer("ceil_mode", 0) != 0) throw UserError("ceil_mode means other windows in ONNX");
  return {{"kernel_shape", kernel},
          {"strides", node.attrs.ints("strides", Ints(axes, 1))},
          {"pads", pads},
          {"dilations", node.attrs.ints("dilations", Ints(axes, 1))}};
}

void write(Emitter& e, const Node& node, const char* op, const Attrs& attrs) {
  const Perm first = channels_first(e.rank(node.inputs[0]));
  e.out(node.outputs[0], e.add(op, {e.moved(node.inputs[0], first)}, attrs), first);
}

void conv(Emitter& e, const Node& node) {
  const Shape& weight = e.shape(node.inputs[1]);
  Ints kernel;
  for (int i = 1; i + 1 < weight.rank(); ++i) kernel.push_back(weight.size(i));
  Attrs attrs = window(node, kernel);
  attrs.set("group", node.attrs.integer("groups", 1));
  const Perm first = channels_first(weight.rank());
  Names x = {e.moved(node.inputs[0], first), e.moved(node.inputs[1], first)};
  if (node.inputs.size() > 2 && node.inputs[2]) x.push_back(e.in(node.inputs[2]));
  e.out(node.outputs[0], e.add("Conv", x, attrs), first);
}

void max_pool(Emitter& e, const Node& node) { write(e, node, "MaxPool", window(node, node.attrs.ints("kernel"))); }

void average_pool(Emitter& e, const Node& node) {
  const Ints kernel = node.attrs.ints("kernel");
  const Ints ones(kernel.size(), 1);
  if (node.attrs.ints("dilations", ones) != ones) throw UserError("dilations have no form in ONNX of opset 17");
  const Attrs all = window(node, kernel);
  write(e, node, "AveragePool",
        {{"kernel_shape", kernel},
         {"strides", all.ints("strides")},
         {"pads", all.ints("pads")},
         {"count_include_pad", node.attrs.integer("count_include_pad", 0)}});
}

void global_average_pool(Emitter& e, const Node& node) { write(e, node, "GlobalAveragePool", {}); }
void global_max_pool(Emitter& e, const Node& node) { write(e, node, "GlobalMaxPool", {}); }

constexpr EmitEntry kRules[] = {{"conv", conv},
                                {"max_pool", max_pool},
                                {"average_pool", average_pool},
                                {"global_average_pool", global_average_pool},
                                {"global_max_pool", global_max_pool}};

}  // namespace

std::span<const EmitEntry> emit_image() { return kRules; }

}  // namespace neap::onnx
