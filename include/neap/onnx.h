// Models from ONNX files. Link neap::onnx for it; it needs protobuf.
#pragma once

#include <memory>
#include <string>

#include "neap/model.h"

namespace neap {

// A file of opset 13 to 21. Its values may lie in other files, inside its own folder. UserError names what cannot be
// read; what cannot be trained is told when the graph is built.
std::shared_ptr<const Model> load_onnx(const std::string& path);

// What the model computes in evaluation from its inputs to its logits, as a file of opset 17 with standard ops only;
// the large weights of a model beyond 1.5 GB go to PATH.data. Inputs are those of Neap's graph (images: channels last),
// the result is "logits", batch first; the loss is left out. `request`: what the graph was built for that has these
// weights. UserError lists all ops that ONNX has nothing for.
void save_onnx(const Model& model, const BuildRequest& request, const std::string& path, const WeightReader& weight);

}  // namespace neap
