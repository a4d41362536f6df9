// What stands behind a name in an ONNX graph while Neap's graph is being built.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "onnx/tensor.h"

namespace neap::onnx {

// Axis j of the result is axis perm[j] of the source; empty: the same order.
using Perm = std::vector<int>;
Perm inverse(const Perm& perm);
Perm compose(const Perm& first, const Perm& second);  // transpose by `first`, then by `second`
bool is_identity(const Perm& perm);
Shape permuted(const Shape& shape, const Perm& perm);
Perm channels_last(int rank);  // [N, C, spatial...] to [N, spatial..., C]

// State whose values come from the file. It gets the layout that its first reader wants.
struct Weight {
  std::string name;
  Constant first;  // in the file's layout
  bool trained = true;
  Value value;  // once made
  Perm layout;  // axis j here is axis layout[j] in the file
};

// One of: a constant, a weight, a tensor of the graph. Its `type` is as ONNX sees it.
struct Operand {
  TensorType type;
  ConstantPtr constant;
  std::shared_ptr<Weight> weight;
  Value value;
  // Axis i of `type` is axis axes[i] of `value` (of the file, for a weight); empty: the same. Transposes are carried
  // along this way, so that images stay channels-last from one convolution to the next.
  Perm axes;
  bool failed = false;  // made by a node that could not be imported

  explicit operator bool() const { return constant || weight || value || failed; }
};

}  // namespace neap::onnx
