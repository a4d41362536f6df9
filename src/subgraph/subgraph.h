// Pieces of a graph that are judged and treated on their own: a tree, from the whole step down, of runs of nodes in
// program order. It is cut where the fewest bytes cross, and while steps are measured pieces that stay far below their
// roofline are split at their worst node, neighbours that stay near it are merged.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "neap/tuning.h"

namespace neap {

// UserError names the setting.
void check(const SubgraphOptions& options, const Graph& graph);

// What the machine can do at best.
struct Roofline {
  struct Cache {
    double bytes = 0;  // of all threads together
    double bytes_per_ms = 1;
  };
  double flops_per_ms = 1;
  double bytes_per_ms = 1;    // through memory
  std::vector<Cache> caches;  // the smallest first

  // The rate at which so many bytes can come and go: that of the smallest cache that holds them all.
  double rate_of(double bytes) const;
};

// What a node takes at best, from its operations and from the bytes that it reads and writes.
struct NodeCost {
  double compute_ms = 0;
  double memory_ms = 0;
  double best_ms() const { return compute_ms > memory_ms ? compute_ms : memory_ms; }
};
std::vector<NodeCost> node_costs(const Graph& graph, const Roofline& roofline);

// Entry i: bytes made before node i and read from it on (state apart). What a cut in front of it costs.
std::vector<std::int64_t> crossing_bytes(const Graph& graph);

struct Subgraph {
  std::uint32_t first = 0, last = 0;  // nodes [first, last)
  int parent = -1, left = -1, right = -1;
  int depth = 0;
  double ms = 0, compute_ms = 0, memory_ms = 0, best_ms = 0;  // of the last sample
  bool is_leaf() const { return left < 0; }
  double performance() const { return ms > 0 ? best_ms / ms : 1; }  // share of the roofline
  bool is_compute_bound() const { return compute_ms >= memory_ms; }
  std::uint32_t nodes() const { return last - first; }
};

class SubgraphTree {
 public:
  SubgraphTree(const Graph& graph, const Roofline& roofline, const SubgraphOptions& options);

  // One sample: milliseconds of each node. Returns a line with its reason for each split and merge.
  std::vector<std::string> observe(const std::vector<double>& node_ms);

  const std::vector<Subgraph>& all() const { return pieces_; }  // 0 is the whole; what was merged away has last == 0
  std::vector<int> leaves() const;                              // in program order
  // The layers that it begins and ends with.
  std::string label(const Subgraph& piece) const;

 private:
  struct History {
    std::deque<double> shares;
    int rests_until = 0;  // sample
  };

  void divide(int piece, int depth);
  int add(std::uint32_t first, std::uint32_t last, int parent);
  void cut(int piece, std::uint32_t at);
  void measure(const std::vector<double>& node_ms);
  bool split(int piece, std::vector<std::string>& log);
  void merge(int piece, std::vector<std::string>& log);
  bool is_settled(int piece) const;
  std::uint32_t least_crossing(std::uint32_t first, std::uint32_t last) const;
  std::uint32_t worst_node(const Subgraph& piece) const;

  const Graph& graph_;
  SubgraphOptions options_;
  std::vector<NodeCost> costs_;
  std::vector<std::int64_t> crossing_;
  std::vector<Subgraph> pieces_;
  std::vector<History> history_;
  std::vector<double> node_ms_;
  int samples_ = 0;
};

}  // namespace neap
