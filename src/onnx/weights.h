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

// Exporters write tensors of equal values once, and an Identity node for each of the others: biases that all start at
// zero, scales that all start at one. Those are weights of their own; a tensor whose values differ among themselves and
// that is read under two names is one that the model ties.
bool is_shared_by_accident(const Constant& values);

WeightRoles roles_of(const pb::GraphProto& graph);
WeightRole role_of(const std::string& name, const Constant& values, const WeightRoles& roles);

}  // namespace neap::onnx
