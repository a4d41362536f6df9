// Bytes in use at each slot of a sequence; adds to ranges and knows the maximum and where it is.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace neap::remat {

class MemoryProfile {
 public:
  explicit MemoryProfile(std::size_t slots);
  // [first, last], both included; nothing happens when first > last.
  void add(std::size_t first, std::size_t last, std::int64_t bytes);
  std::int64_t max() const { return nodes_[1].max; }
  std::size_t argmax() const;  // the first of them
  std::int64_t at(std::size_t slot) const;

 private:
  struct Node {
    std::int64_t max = 0;  // of what lies below, own addition included
    std::int64_t add = 0;  // to all that lies below
  };
  void pull(std::size_t node) {
    nodes_[node].max = std::max(nodes_[2 * node].max, nodes_[2 * node + 1].max) + nodes_[node].add;
  }
  std::size_t width_;  // a power of two
  std::vector<Node> nodes_;
};

}  // namespace neap::remat
