#include "graph/initial.h"

#include "core/random.h"
#include "graph/outside.h"
#include "neap/error.h"

namespace neap {

std::vector<std::byte> initial_value(const Tensor& tensor, std::uint64_t seed) {
  if (tensor.data) return from_outside(tensor, tensor.data->data());
  std::vector<std::byte> out(static_cast<std::size_t>(tensor.type.bytes()));
  if (tensor.role == Role::kOptimizer) return out;
  require(tensor.type.dtype == DType::kF32, "state is f32");
  auto* values = reinterpret_cast<float*>(out.data());
  RandomStream random(mix(seed, hash_text(tensor.name)));
  const std::int64_t n = tensor.type.elements();
  for (std::int64_t i = 0; i < n; ++i) {
    switch (tensor.init.kind) {
      case Init::Kind::kConstant: values[i] = static_cast<float>(tensor.init.scale); break;
      case Init::Kind::kNormal: values[i] = static_cast<float>(tensor.init.scale * random.normal()); break;
      case Init::Kind::kUniform: values[i] = static_cast<float>(tensor.init.scale * (2 * random.uniform() - 1)); break;
    }
  }
  return out;
}

}  // namespace neap
