#include "onnx/operand.h"

namespace neap::onnx {

Perm inverse(const Perm& perm) {
  Perm out(perm.size());
  for (std::size_t i = 0; i < perm.size(); ++i) out[static_cast<std::size_t>(perm[i])] = static_cast<int>(i);
  return out;
}

Perm compose(const Perm& first, const Perm& second) {
  if (first.empty()) return second;
  if (second.empty()) return first;
  Perm out(second.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = first[static_cast<std::size_t>(second[i])];
  return out;
}

bool is_identity(const Perm& perm) {
  for (std::size_t i = 0; i < perm.size(); ++i) {
    if (perm[i] != static_cast<int>(i)) return false;
  }
  return true;
}

Shape permuted(const Shape& shape, const Perm& perm) {
  if (perm.empty()) return shape;
  Shape out;
  for (const int axis : perm) out.push_back(shape[axis]);
  return out;
}

Perm channels_last(int rank) {
  Perm perm = {0};
  for (int i = 2; i < rank; ++i) perm.push_back(i);
  if (rank > 1) perm.push_back(1);
  return perm;
}

}  // namespace neap::onnx
