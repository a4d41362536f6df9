// A graph of Neap's as an ONNX model of opset 17, standard ops only.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "graph/graph.h"
#include "onnx/emit/emitter.h"

namespace neap::onnx {

struct ExportedGraph {
  pb::ModelProto model;                   // initializers of state have types and no values yet
  std::map<std::string, Source> sources;  // what those are filled with, by name
};

// The result named "logits", else what the loss compares with the targets; none when neither is there.
std::optional<Value> logits_of(const Graph& graph);

// `graph` is built for evaluation, symbols not bound; what the logits need of it is written. Inputs keep their names
// and layout (images: channels last); the result is "logits", batch first. State keeps its name and the layout it has
// outside, apart from the gates of LSTM and GRU, which are in ONNX's order, as a suffix of the name says (_iofc, _zrh).
// UserError lists everything that ONNX has nothing for.
ExportedGraph export_graph(const Graph& graph, const std::string& name);

}  // namespace neap::onnx
