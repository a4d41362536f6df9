// Which initializers of a model are trained.
//
// ONNX does not say. A float tensor of more than one element is a weight, unless every reader has it where no weight
// can stand (the bounds of Clip, the exponent of Pow), or its values are those of a mask (infinities, -3e38). Running
// statistics of batch norm are state that is not trained. What this gets wrong, --freeze puts right.
#pragma once

#include <map>
#include <set>
#include <string>

#include "onnx/tensor.h"

namespace neap::onnx {

enum class WeightRole : std::uint8_t { kTrained, kBuffer, kConstant };

struct WeightRoles {
  std::set<std::string> weights;  // read where a weight can stand
  std::set<std::string> layers;   // read where nothing else stands: weights and biases of layers
  std::set<std::string> buffers;
};

WeightRoles roles_of(const pb::GraphProto& graph);
WeightRole role_of(const std::string& name, const Constant& values, const WeightRoles& roles);

}  // namespace neap::onnx
