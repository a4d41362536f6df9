#include "split/blocks.h"

#include <algorithm>
#include <limits>
#include <set>

#include "graph/op.h"

namespace neap {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

bool is_view(const Graph& graph, const Node& node) {
  return node.op->view_offset != nullptr && node.op->view_offset(call_of(graph, node)).has_value();
}

// What blocks are judged by.
class Costs {
 public:
  Costs(const Graph& graph, std::int64_t parts) : graph_(graph), crossing_(graph.nodes.size() + 1) {
    find_roots();
    for (std::uint32_t i = 0; i < graph.tensors.size(); ++i) add_crossing({i}, parts);
  }

  std::size_t nodes() const { return graph_.nodes.size(); }

  // Of the blocks that end in front of `end`, by where they begin: cost[first].
  std::vector<std::int64_t> ending_at(std::size_t end) const {
    std::vector<std::int64_t> out(end, kNever);
    std::set<TensorId> weights;
    std::int64_t sums = 0;
    for (std::size_t first = end; first-- > 0;) {
      for (const TensorId id : graph_.nodes[first].inputs) {
        if (id && graph_.at(id).role == Role::kParameter && weights.insert(id).second)
          sums += graph_.at(id).type.bytes();
      }
      out[first] = std::max(crossing_[first], crossing_[end]) + sums;
      if (first > 0 && sees_whole_batch(graph_.nodes[first - 1])) break;
    }
    return out;
  }

 private:
  void find_roots() {
    for (std::uint32_t i = 0; i < graph_.tensors.size(); ++i) roots_.push_back({i});
    for (const Node& node : graph_.nodes) {
      if (is_view(graph_, node)) roots_[node.outputs[0].index] = roots_[node.inputs[0].index];
    }
    last_read_.resize(graph_.tensors.size());
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      for (const TensorId id : graph_.nodes[n].inputs) {
        if (id) last_read_[roots_[id.index].index] = n;
      }
    }
  }

  void add_crossing(TensorId id, std::int64_t parts) {
    const Tensor& t = graph_.at(id);
    if (!t.producer || !is_float(t.type.dtype) || roots_[id.index] != id) return;
    for (std::size_t n = t.producer.index + 1; n <= last_read_[id.index]; ++n) crossing_[n] += t.type.bytes() * parts;
  }

  const Graph& graph_;
  std::vector<TensorId> roots_;
  std::vector<std::size_t> last_read_;  // per root
  std::vector<std::int64_t> crossing_;  // in front of each node, of all parts: made before, read there or behind
};

}  // namespace

bool sees_whole_batch(const Node& node) { return node.op->name == "batch_stats"; }

std::vector<std::size_t> find_cuts(const Graph& forward, std::int64_t parts) {
  const Costs costs(forward, parts);
  const std::size_t n = costs.nodes();
  std::vector<std::vector<std::int64_t>> cost(n + 1);
  std::vector<std::int64_t> least(n + 1, 0);  // of the dearest block, up to there
  for (std::size_t end = 1; end <= n; ++end) {
    cost[end] = costs.ending_at(end);
    least[end] = kNever;
    for (std::size_t first = 0; first < end; ++first) {
      least[end] = std::min(least[end], std::max(least[first], cost[end][first]));
    }
  }
  std::vector<std::size_t> count(n + 1, n + 1);
  std::vector<std::size_t> begin(n + 1, 0);
  count[0] = 0;
  for (std::size_t end = 1; end <= n; ++end) {
    for (std::size_t first = 0; first < end; ++first) {
      if (cost[end][first] > least[n] || count[first] + 1 >= count[end]) continue;
      count[end] = count[first] + 1;
      begin[end] = first;
    }
  }
  std::vector<std::size_t> cuts;
  for (std::size_t at = begin[n]; at > 0; at = begin[at]) cuts.push_back(at);
  std::reverse(cuts.begin(), cuts.end());
  return cuts;
}

}  // namespace neap
