#include "subgraph/subgraph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/bytes.h"
#include "graph/op.h"
#include "neap/error.h"

namespace neap {
namespace {

bool is_view(const Graph& graph, const Node& node) {
  return node.op->view_offset != nullptr && node.op->view_offset(call_of(graph, node)).has_value();
}

// Cuts in halves until every piece is one node.
int deepest(const Graph& graph) {
  return static_cast<int>(std::floor(std::log2(std::max<double>(1, static_cast<double>(graph.nodes.size())))));
}

}  // namespace

void check(const SubgraphOptions& o, const Graph& graph) {
  const auto is_share = [](double x) { return x > 0 && x <= 1; };
  if (!is_share(o.performance_threshold)) {
    throw UserError(fmt::format("performance_threshold {} must lie in (0, 1]", o.performance_threshold));
  }
  if (!is_share(o.merging_threshold)) {
    throw UserError(fmt::format("merging_threshold {} must lie in (0, 1]", o.merging_threshold));
  }
  if (o.merging_threshold < o.performance_threshold) {
    throw UserError(
        fmt::format("merging_threshold {} is below performance_threshold {}: pieces would be merged and "
                    "split again",
                    o.merging_threshold, o.performance_threshold));
  }
  if (o.initial_granularity && (*o.initial_granularity < 1 || *o.initial_granularity > deepest(graph))) {
    throw UserError(fmt::format("initial_granularity {}: this graph of {} nodes takes 1 to {}", *o.initial_granularity,
                                graph.nodes.size(), deepest(graph)));
  }
  if (o.window < 1) throw UserError(fmt::format("window {}: it takes one sample or more", o.window));
  if (o.cooldown < 0) throw UserError(fmt::format("cooldown {}: it takes no sample or more", o.cooldown));
}

double Roofline::rate_of(double bytes) const {
  for (const Cache& cache : caches) {
    if (bytes <= cache.bytes) return cache.bytes_per_ms;
  }
  return bytes_per_ms;
}

std::vector<NodeCost> node_costs(const Graph& graph, const Roofline& roofline) {
  std::vector<NodeCost> out;
  for (const Node& node : graph.nodes) {
    const OpCall call = call_of(graph, node);
    if (is_view(graph, node)) {
      out.emplace_back();
    } else {
      const double traffic = traffic_of(call);
      out.push_back({flops_of(call) / roofline.flops_per_ms, traffic / roofline.rate_of(traffic)});
    }
  }
  return out;
}

std::vector<std::int64_t> crossing_bytes(const Graph& graph) {
  std::vector<std::int64_t> change(graph.nodes.size() + 1);
  std::vector<std::uint32_t> last(graph.tensors.size());
  for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
    for (const TensorId id : graph.nodes[i].inputs) {
      if (id) last[id.index] = i;
    }
  }
  for (std::uint32_t i = 0; i < graph.tensors.size(); ++i) {
    const Tensor& t = graph.tensors[i];
    if (!t.producer || is_view(graph, graph.at(t.producer)) || last[i] <= t.producer.index) continue;
    change[t.producer.index + 1] += t.type.bytes();
    change[last[i] + 1] -= t.type.bytes();
  }
  for (std::size_t i = 1; i < change.size(); ++i) change[i] += change[i - 1];
  return change;
}

SubgraphTree::SubgraphTree(const Graph& graph, const Roofline& roofline, const SubgraphOptions& options)
    : graph_(graph), options_(options), costs_(node_costs(graph, roofline)), crossing_(crossing_bytes(graph)) {
  check(options, graph);
  add(0, static_cast<std::uint32_t>(graph.nodes.size()), -1);
  divide(0, options.initial_granularity.value_or(std::min(3, deepest(graph))));
  for (History& each : history_) each.rests_until = 0;  // nothing has changed yet
}

int SubgraphTree::add(std::uint32_t first, std::uint32_t last, int parent) {
  pieces_.push_back({.first = first,
                     .last = last,
                     .parent = parent,
                     .depth = parent < 0 ? 0 : pieces_[static_cast<std::size_t>(parent)].depth + 1});
  history_.push_back({.shares = {}, .rests_until = samples_ + options_.cooldown});
  return static_cast<int>(pieces_.size()) - 1;
}

void SubgraphTree::cut(int piece, std::uint32_t at) {
  const Subgraph whole = pieces_[static_cast<std::size_t>(piece)];
  const int left = add(whole.first, at, piece);
  const int right = add(at, whole.last, piece);
  pieces_[static_cast<std::size_t>(piece)].left = left;
  pieces_[static_cast<std::size_t>(piece)].right = right;
}

void SubgraphTree::divide(int piece, int depth) {
  const Subgraph p = pieces_[static_cast<std::size_t>(piece)];
  if (depth == 0 || p.nodes() < 2) return;
  // Neither side has less than a quarter of the nodes.
  const std::uint32_t margin = std::max<std::uint32_t>(1, p.nodes() / 4);
  cut(piece, least_crossing(p.first + margin, p.last - margin + 1));
  divide(pieces_[static_cast<std::size_t>(piece)].left, depth - 1);
  divide(pieces_[static_cast<std::size_t>(piece)].right, depth - 1);
}

// The place in [first, last) in front of which the fewest bytes cross.
std::uint32_t SubgraphTree::least_crossing(std::uint32_t first, std::uint32_t last) const {
  const auto at = std::min_element(crossing_.begin() + first, crossing_.begin() + std::max(last, first + 1));
  return static_cast<std::uint32_t>(at - crossing_.begin());
}

std::vector<int> SubgraphTree::leaves() const {
  std::vector<int> out;
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    if (pieces_[i].is_leaf() && pieces_[i].last > 0) out.push_back(static_cast<int>(i));
  }
  std::sort(out.begin(), out.end(), [&](int a, int b) {
    return pieces_[static_cast<std::size_t>(a)].first < pieces_[static_cast<std::size_t>(b)].first;
  });
  return out;
}

void SubgraphTree::measure(const std::vector<double>& node_ms) {
  require(node_ms.size() == graph_.nodes.size(), "one time a node");
  node_ms_ = node_ms;
  for (Subgraph& p : pieces_) {
    p.ms = p.compute_ms = p.memory_ms = p.best_ms = 0;
    for (std::uint32_t i = p.first; i < p.last; ++i) {
      p.ms += node_ms[i];
      p.compute_ms += costs_[i].compute_ms;
      p.memory_ms += costs_[i].memory_ms;
      p.best_ms += costs_[i].best_ms();
    }
  }
}

bool SubgraphTree::is_settled(int piece) const {
  const History& h = history_[static_cast<std::size_t>(piece)];
  return samples_ >= h.rests_until && static_cast<int>(h.shares.size()) >= options_.window;
}

std::vector<std::string> SubgraphTree::observe(const std::vector<double>& node_ms) {
  ++samples_;
  measure(node_ms);
  const std::vector<int> now = leaves();
  for (const int leaf : now) {
    History& h = history_[static_cast<std::size_t>(leaf)];
    h.shares.push_back(pieces_[static_cast<std::size_t>(leaf)].performance());
    if (static_cast<int>(h.shares.size()) > options_.window) h.shares.pop_front();
  }
  std::vector<std::string> log;
  for (const int leaf : now) {
    const auto& shares = history_[static_cast<std::size_t>(leaf)].shares;
    const bool is_slow =
        std::all_of(shares.begin(), shares.end(), [&](double s) { return s < options_.performance_threshold; });
    if (is_settled(leaf) && is_slow) split(leaf, log);
  }
  for (std::size_t i = pieces_.size(); i-- > 0;) merge(static_cast<int>(i), log);
  return log;
}

std::uint32_t SubgraphTree::worst_node(const Subgraph& p) const {
  std::uint32_t worst = p.first;
  const auto lost = [&](std::uint32_t i) { return node_ms_[i] - costs_[i].best_ms(); };
  for (std::uint32_t i = p.first; i < p.last; ++i) {
    if (lost(i) > lost(worst)) worst = i;
  }
  return worst;
}

// On that side of its worst node where fewer bytes cross.
bool SubgraphTree::split(int piece, std::vector<std::string>& log) {
  const Subgraph p = pieces_[static_cast<std::size_t>(piece)];
  if (p.nodes() < 2) return false;
  const std::uint32_t worst = worst_node(p);
  const bool can_before = worst > p.first;
  const bool can_behind = worst + 1 < p.last;
  const bool is_before = can_before && (!can_behind || crossing_[worst] <= crossing_[worst + 1]);
  const std::uint32_t at = is_before ? worst : worst + 1;
  const NodeCost& cost = costs_[worst];
  log.push_back(fmt::format(
      "split {} (nodes {}-{}): {:.0f} % of the roofline over {} samples, below {:.0f} %; worst is {} '{}', {:.2f} ms "
      "where "
      "{} allows {:.2f}; {} cross",
      label(p), p.first, p.last - 1, 100 * p.performance(), options_.window, 100 * options_.performance_threshold,
      graph_.nodes[worst].op->name, graph_.nodes[worst].name, node_ms_[worst],
      cost.compute_ms >= cost.memory_ms ? "compute" : "memory", cost.best_ms(), human_bytes(crossing_[at])));
  cut(piece, at);
  measure(node_ms_);
  return true;
}

// Its two leaves, if both have stayed near the roofline.
void SubgraphTree::merge(int piece, std::vector<std::string>& log) {
  const Subgraph p = pieces_[static_cast<std::size_t>(piece)];
  if (p.is_leaf() || p.last == 0 || p.parent < 0) return;  // the whole stays cut
  for (const int child : {p.left, p.right}) {
    const auto& shares = history_[static_cast<std::size_t>(child)].shares;
    const bool is_fast =
        std::all_of(shares.begin(), shares.end(), [&](double s) { return s >= options_.merging_threshold; });
    if (!pieces_[static_cast<std::size_t>(child)].is_leaf() || !is_settled(child) || !is_fast) return;
  }
  for (const int child : {p.left, p.right}) pieces_[static_cast<std::size_t>(child)].last = 0;
  for (const int child : {p.left, p.right}) pieces_[static_cast<std::size_t>(child)].first = 0;
  pieces_[static_cast<std::size_t>(piece)].left = pieces_[static_cast<std::size_t>(piece)].right = -1;
  history_[static_cast<std::size_t>(piece)] = {.shares = {}, .rests_until = samples_ + options_.cooldown};
  log.push_back(fmt::format("merged {} (nodes {}-{}): both halves at {:.0f} % of the roofline or more over {} samples",
                            label(p), p.first, p.last - 1, 100 * options_.merging_threshold, options_.window));
}

std::string SubgraphTree::label(const Subgraph& p) const {
  if (p.first >= p.last) return "nothing";
  const std::string& from = graph_.nodes[p.first].layer;
  const std::string& to = graph_.nodes[p.last - 1].layer;
  return from == to ? from : fmt::format("{}..{}", from, to);
}

}  // namespace neap
