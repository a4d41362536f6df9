// What exporters spell out in small ops, found again: layers that Neap has whole, and that its mechanisms know.
//
// Each pass replaces the node at the end of a pattern and leaves the rest to prune(), which drops what nothing reads.
#pragma once

#include "graph/graph.h"

namespace neap::onnx {

// All of them, in the order in which they build on each other.
Graph find_patterns(Graph graph);

Graph find_norms(Graph graph);               // layer norm and rms norm from means, squares and roots
Graph find_activations(const Graph& graph);  // gelu from erf or tanh; silu from sigmoid
Graph find_bias(const Graph& graph);         // linear + bias
Graph find_attention(const Graph& graph);    // softmax(q k^T * scale + mask) v
Graph find_fused_norms(const Graph& graph);  // batch norm with the relu behind it, and the sum before that

// Without the nodes that no result, and no node with side effects, needs.
Graph prune(const Graph& graph);

}  // namespace neap::onnx
