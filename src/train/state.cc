#include "train/state.h"

#include <fmt/format.h>

#include <cstring>

#include "core/random.h"
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

// Greedy with one point of return (the last '*'), so that no pattern takes exponential time.
bool matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t star = std::string_view::npos;
  std::size_t resume = 0;
  for (std::size_t t = 0; t < text.size();) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

void freeze(Graph& graph, const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    int hits = 0;
    for (Tensor& t : graph.tensors) {
      if (t.role != Role::kParameter || !matches(pattern, t.name)) continue;
      t.trainable = false;
      ++hits;
    }
    if (hits == 0) throw UserError(fmt::format("--freeze '{}' matches no parameter", pattern));
  }
}

}  // namespace neap
