#include "train/pieces.h"

#include <algorithm>
#include <numeric>

#include "graph/op.h"
#include "observe/ceilings.h"
#include "train/subgraphs.h"

namespace neap {

Pieces::Pieces(Graph settled, std::vector<const Optimization*> library, const SubgraphOptions& options)
    : settled_(std::move(settled)),
      library_(std::move(library)),
      roofline_(roofline_of(measure_ceilings())),
      costs_(node_costs(settled_, roofline_)),
      crossing_(crossing_bytes(settled_)),
      tree_(settled_, roofline_, options) {
  for (std::uint32_t i = 0; i < settled_.nodes.size(); ++i) by_name_[settled_.nodes[i].name] = i;
  recut();
}

void Pieces::recut() {
  pieces_.clear();
  piece_of_.assign(settled_.nodes.size(), 0);
  for (const int leaf : tree_.leaves()) {
    Subgraph piece = tree_.all()[static_cast<std::size_t>(leaf)];
    std::fill(piece_of_.begin() + piece.first, piece_of_.begin() + piece.last, static_cast<int>(pieces_.size()));
    piece.compute_ms = piece.memory_ms = piece.best_ms = 0;
    for (std::uint32_t i = piece.first; i < piece.last; ++i) {
      piece.compute_ms += costs_[i].compute_ms;
      piece.memory_ms += costs_[i].memory_ms;
      piece.best_ms += costs_[i].best_ms();
    }
    pieces_.push_back(piece);
  }
}

std::string_view Pieces::strategy(int action) const {
  return action == 0 ? "nothing" : library_[static_cast<std::size_t>(action) - 1]->name;
}

Graph Pieces::rewritten(const Actions& actions) const {
  Graph graph = settled_;
  for (std::size_t l = 0; l < library_.size(); ++l) {
    if (std::find(actions.begin(), actions.end(), static_cast<int>(l) + 1) == actions.end()) continue;
    Where where;
    for (const Node& node : graph.nodes) {
      const auto at = by_name_.find(node.name);
      const int piece = at == by_name_.end() ? -1 : piece_of_[at->second];
      const bool is_chosen = piece >= 0 && actions[static_cast<std::size_t>(piece)] == static_cast<int>(l) + 1;
      where.push_back(is_chosen ? piece : -1);
    }
    graph = library_[l]->apply(graph, where);
  }
  return graph;
}

Actions Pieces::actions_of(const Graph& graph) const {
  Actions out(size());
  for (const Node& node : graph.nodes) {
    const auto at = by_name_.find(node.name);
    if (at == by_name_.end()) continue;
    int& action = out[static_cast<std::size_t>(piece_of_[at->second])];
    for (std::size_t l = 0; l < library_.size() && action == 0; ++l) {
      if (library_[l]->makes == node.op->name) action = static_cast<int>(l) + 1;
    }
  }
  return out;
}

std::vector<double> Pieces::node_ms(const Stepper& stepper, const std::vector<double>& timed) const {
  std::vector<double> out(settled_.nodes.size());
  for (std::size_t i = 0; i < timed.size(); ++i) {
    const Instruction& in = stepper.plan().instructions[i];
    if (!is_call(in.action)) continue;
    const auto at = by_name_.find(stepper.graph().at(in.node).name);
    if (at != by_name_.end()) out[at->second] += timed[i];
  }
  return out;
}

double Pieces::ms(std::size_t p, const std::vector<double>& node_ms) const {
  const Subgraph& piece = pieces_[p];
  return std::accumulate(node_ms.begin() + piece.first, node_ms.begin() + piece.last, 0.0);
}

std::int64_t Pieces::transferred_bytes(std::size_t p) const {
  return crossing_[pieces_[p].first] + crossing_[pieces_[p].last];
}

dqn::State Pieces::state(std::size_t p, double ms, int action) const {
  const Subgraph& piece = pieces_[p];
  const auto share = [&](double best_ms) { return ms > 0 ? std::min(1.0, best_ms / ms) : 1; };
  return {.nodes = static_cast<double>(piece.nodes()),
          .gflop = piece.compute_ms * roofline_.flops_per_ms * 1e-9,
          .bytes = piece.memory_ms * roofline_.bytes_per_ms,
          .ms = ms,
          .share = share(piece.best_ms),
          .bandwidth = share(piece.memory_ms),
          .is_compute_bound = piece.is_compute_bound(),
          .strategy = action};
}

std::vector<std::string> Pieces::observe(const std::vector<double>& node_ms) {
  std::vector<std::string> changes = tree_.observe(node_ms);
  if (!changes.empty()) recut();
  return changes;
}

}  // namespace neap
