// What training minimises: the model's own loss, or one put behind its result.
#pragma once

#include "neap/model.h"
#include "onnx/importer.h"

namespace neap::onnx {

inline constexpr std::string_view kTargetInput = "target";

// Names the results "loss", and "logits" and "correct" where there are classes. Returns the number of classes, 0 where
// there are none.
std::int64_t attach_loss(const pb::ModelProto& model, Importer& importer, const BuildRequest& request);

}  // namespace neap::onnx
