// Maximum flow (Dinic's algorithm) with real capacities.
#pragma once

#include <cstdint>
#include <vector>

namespace neap::remat {

class FlowNetwork {
 public:
  explicit FlowNetwork(std::size_t nodes) : first_(nodes, kNone) {}
  void add_edge(std::uint32_t from, std::uint32_t to, double capacity);
  // No cut between the two is smaller than the result. Gives up, with the flow so far, when `work` is used up.
  double push(std::uint32_t source, std::uint32_t sink, std::int64_t work);
  // After push: nodes on the source's side of the smallest cut.
  std::vector<bool> source_side(std::uint32_t source) const;

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  struct Edge {
    std::uint32_t to;
    std::uint32_t next;
    double left;  // capacity
  };
  bool find_levels(std::uint32_t source, std::uint32_t sink);
  double push_path(std::uint32_t source, std::uint32_t sink);

  std::vector<std::uint32_t> first_;
  std::vector<Edge> edges_;  // each beside its reverse
  std::vector<std::uint32_t> level_;
  std::vector<std::uint32_t> at_;
  std::vector<std::uint32_t> path_;
  std::int64_t steps_ = 0;
  double tiny_ = 0;
};

}  // namespace neap::remat
