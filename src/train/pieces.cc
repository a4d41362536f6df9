#include "train/pieces.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "graph/op.h"
#include "observe/ceilings.h"
#include "optimize/rewrite.h"
#include "train/subgraphs.h"

namespace neap {

Pieces::Pieces(Graph settled, std::vector<Way> ways, const SubgraphOptions& options, DeviceKind device)
    : settled_(std::move(settled)),
      ways_(std::move(ways)),
      roofline_(roofline_of(ceilings_of(device))),
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

// In the order of the library.
Graph Pieces::rewritten(const Actions& actions) const {
  std::vector<const Optimization*> passes;
  for (const Optimization& each : optimizations()) passes.push_back(&each);
  for (const Way& way : ways_) {
    for (const Optimization* each : way.passes) {
      if (std::find(passes.begin(), passes.end(), each) == passes.end()) passes.push_back(each);
    }
  }
  Graph graph = settled_;
  for (const Optimization* pass : passes) {
    std::vector<bool> has(size());
    for (std::size_t p = 0; p < size(); ++p) {
      const auto& chosen = way(actions[p]).passes;
      has[p] = std::find(chosen.begin(), chosen.end(), pass) != chosen.end();
    }
    if (std::find(has.begin(), has.end(), true) == has.end()) continue;
    Where where;
    for (const Node& node : graph.nodes) {
      const auto at = by_name_.find(node.name);
      const int piece = at == by_name_.end() ? -1 : piece_of_[at->second];
      where.push_back(piece >= 0 && has[static_cast<std::size_t>(piece)] ? piece : -1);
    }
    graph = pass->apply(graph, where);
  }
  return graph;
}

Actions Pieces::actions_of(const Graph& graph) const {
  const std::vector<NodeId> there = counterparts(settled_, graph);
  std::vector<std::set<std::string_view>> made(size());  // ops that were not there before
  for (std::uint32_t i = 0; i < there.size(); ++i) {
    const std::string_view op = graph.at(there[i]).op->name;
    if (op != settled_.nodes[i].op->name) made[piece_of(i)].insert(op);
  }
  Actions out(size());
  for (std::size_t p = 0; p < size(); ++p) {
    for (std::size_t w = 0; w < ways_.size(); ++w) {
      const auto& passes = ways_[w].passes;
      const bool is_here = std::all_of(passes.begin(), passes.end(),
                                       [&](const Optimization* each) { return made[p].contains(each->makes); });
      if (is_here && passes.size() > way(out[p]).passes.size()) out[p] = static_cast<int>(w);
    }
  }
  return out;
}

const std::vector<NodeId>& Pieces::counterparts_in(const Stepper& stepper) const {
  if (known_[1].program == stepper.program()) std::swap(known_[0], known_[1]);
  if (known_[0].program != stepper.program()) {
    known_[1] = std::move(known_[0]);
    known_[0] = {stepper.program(), counterparts(settled_, stepper.graph())};
  }
  return known_[0].counterparts;
}

std::vector<double> Pieces::node_ms(const Stepper& stepper, const std::vector<double>& timed) const {
  constexpr double kLeastMs = 1e-9;  // of what takes nothing at best
  const std::vector<NodeId>& there = counterparts_in(stepper);
  std::vector<double> took(stepper.graph().nodes.size());
  for (std::size_t i = 0; i < timed.size(); ++i) {
    const Instruction& in = stepper.plan().instructions[i];
    if (is_call(in.action)) took[in.node.index] += timed[i];
  }
  std::vector<double> best(took.size());
  for (std::size_t i = 0; i < there.size(); ++i) best[there[i].index] += costs_[i].best_ms() + kLeastMs;
  std::vector<double> out(settled_.nodes.size());
  for (std::size_t i = 0; i < there.size(); ++i) {
    const std::uint32_t at = there[i].index;
    out[i] = took[at] * (costs_[i].best_ms() + kLeastMs) / best[at];
  }
  return out;
}

// A node that both have stands for the same settled nodes in both: what a pass has put in is named anew or joins
// others.
std::vector<bool> Pieces::differences(const Stepper& a, const Stepper& b) const {
  const std::vector<NodeId> in_a = counterparts_in(a);
  const std::vector<NodeId> in_b = counterparts_in(b);
  std::vector<int> share_a(a.graph().nodes.size());
  std::vector<int> share_b(b.graph().nodes.size());
  for (std::size_t i = 0; i < in_a.size(); ++i) {
    ++share_a[in_a[i].index];
    ++share_b[in_b[i].index];
  }
  std::vector<bool> out(in_a.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Node& x = a.graph().at(in_a[i]);
    const Node& y = b.graph().at(in_b[i]);
    const bool is_same = x.op == y.op && x.name == y.name && x.attrs == y.attrs && x.inputs.size() == y.inputs.size();
    out[i] = !is_same || share_a[in_a[i].index] != share_b[in_b[i].index];
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
