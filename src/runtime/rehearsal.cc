#include "runtime/rehearsal.h"

#include <cmath>
#include <cstring>

#include "core/random.h"

namespace neap {

void Rehearsed::add(const std::byte* at, std::size_t bytes, DType type, bool has_sums) {
  hash = hash_bytes(at, bytes, hash);
  if (!has_sums || type != DType::kF32) return;
  for (std::size_t i = 0; i * sizeof(float) < bytes; ++i) {
    float value = 0;
    std::memcpy(&value, at + i * sizeof value, sizeof value);
    const double x = value;
    square += x * x;
    const std::uint64_t signs = mix(i, 0);
    for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += (signs >> k & 1) != 0 ? x : -x;
  }
}

double relative_error(const Rehearsed& a, const Rehearsed& b) {
  if (a.hash == b.hash) return 0;
  double sum = 0;
  for (std::size_t k = 0; k < a.sums.size(); ++k) sum += (a.sums[k] - b.sums[k]) * (a.sums[k] - b.sums[k]);
  return std::sqrt(sum / static_cast<double>(a.sums.size()) / a.square);
}

}  // namespace neap
