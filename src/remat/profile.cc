#include "remat/profile.h"

#include <bit>

namespace neap::remat {

MemoryProfile::MemoryProfile(std::size_t slots) : width_(std::bit_ceil(std::max<std::size_t>(slots, 2))) {
  nodes_.resize(2 * width_);
}

void MemoryProfile::add(std::size_t first, std::size_t last, std::int64_t bytes) {
  if (first > last || bytes == 0) return;
  std::size_t l = first + width_;
  std::size_t r = last + width_;
  const auto apply = [&](std::size_t node) {
    nodes_[node].max += bytes;
    if (node < width_) nodes_[node].add += bytes;
  };
  apply(l);
  if (l != r) apply(r);
  while (l / 2 != r / 2) {
    if (l % 2 == 0) apply(l + 1);
    if (r % 2 == 1) apply(r - 1);
    l /= 2;
    r /= 2;
    pull(l);
    pull(r);
  }
  for (l /= 2; l >= 1; l /= 2) pull(l);
}

std::size_t MemoryProfile::argmax() const {
  std::size_t node = 1;
  while (node < width_) node = nodes_[2 * node].max >= nodes_[2 * node + 1].max ? 2 * node : 2 * node + 1;
  return node - width_;
}

std::int64_t MemoryProfile::at(std::size_t slot) const {
  std::size_t node = slot + width_;
  std::int64_t sum = nodes_[node].max;
  for (node /= 2; node >= 1; node /= 2) sum += nodes_[node].add;
  return sum;
}

}  // namespace neap::remat
