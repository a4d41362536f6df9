// Mixed precision: which tensors of a training graph are kept in bf16. Products (linear layers, convolutions,
// attention) read and write bf16 and add up in f32; what lies between two of them is bf16 too; the residual stream,
// norms, statistics, losses, weights, their gradients and the optimizer's state stay f32.
#pragma once

#include "graph/graph.h"

namespace neap {

// The same program with other types. Types no longer follow from the ops' shape rules: every kernel computes in f32 and
// rounds what it writes (ops/convert_kernel.h). The graph has static shapes.
Graph with_bf16(const Graph& graph);

}  // namespace neap
