// Models from ONNX files. Link neap::onnx for it; it needs protobuf.
#pragma once

#include <memory>
#include <string>

#include "neap/model.h"

namespace neap {

// A file of opset 13 to 21. Its values may lie in other files, inside its own folder. UserError names what cannot be
// read; what cannot be trained is told when the graph is built.
std::shared_ptr<const Model> load_onnx(const std::string& path);

}  // namespace neap
