#include "policy/layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "graph/op.h"

namespace neap {
namespace {

// Work of a kind that memory traffic does not explain: products, convolutions, attention, recurrent cells.
bool is_dear(const Graph& graph, const Node& node) {
  constexpr double kFlopsPerElement = 16;
  const OpCall call = call_of(graph, node);
  double elements = 0;
  for (const TensorType& t : call.outputs) elements += static_cast<double>(t.elements());
  return !node.op->cheap && flops_of(call) > kFlopsPerElement * elements;
}

// Gap g lies between forward nodes g and g + 1.
struct Gap {
  int tensors = 0;  // that cross it; parts of one whole count once
  std::int64_t bytes = 0;
  bool operator<(const Gap& o) const { return std::pair(tensors, bytes) < std::pair(o.tensors, o.bytes); }
};

class Finder {
 public:
  explicit Finder(const Recompute& r) : r_(r), last_read_(r.problem.graph.tensors.size(), -1) {
    for (std::size_t n = 0; n < r.forward.size(); ++n) {
      for (const TensorId id : r.reads[r.forward[n].index]) last_read_[id.index] = static_cast<std::int64_t>(n);
    }
  }

  std::vector<Layer> run() {
    std::vector<Layer> out;
    std::size_t begin = 0;
    for (const std::size_t cut : find_cuts()) {
      out.push_back(make_layer(begin, cut + 1));
      begin = cut + 1;
    }
    out.push_back(make_layer(begin, r_.forward.size()));
    name_uniquely(out);
    return out;
  }

 private:
  const Graph& graph() const { return r_.problem.graph; }

  std::vector<Gap> measure_gaps() const {
    constexpr std::int64_t kSmall = 32;  // a tensor this many times smaller than the widest gap does not count
    const std::size_t count = r_.forward.size();
    std::vector<Gap> gaps(count);
    const auto visit = [&](auto note) {
      std::map<TensorId, std::pair<std::int64_t, std::int64_t>> spans;  // per whole: made at, read last at
      for (std::size_t n = 0; n < count; ++n) {
        for (const TensorId id : graph().at(r_.forward[n]).outputs) {
          const auto [at, is_new] =
              spans.try_emplace(r_.whole_of(id), static_cast<std::int64_t>(n), last_read_[id.index]);
          at->second.second = std::max(at->second.second, last_read_[id.index]);
        }
      }
      for (const auto& [id, span] : spans) note(id, span.first, span.second);
    };
    std::int64_t largest = 0;
    visit([&](TensorId id, std::int64_t made, std::int64_t read) {
      for (std::int64_t g = made; g < read; ++g) gaps[static_cast<std::size_t>(g)].bytes += r_.bytes_of(id);
    });
    for (const Gap& g : gaps) largest = std::max(largest, g.bytes);
    visit([&](TensorId id, std::int64_t made, std::int64_t read) {
      if (r_.bytes_of(id) * kSmall < largest) return;
      for (std::int64_t g = made; g < read; ++g) ++gaps[static_cast<std::size_t>(g)].tensors;
    });
    return gaps;
  }

  // Between two dear nodes the narrowest gap is a candidate, the last one of equals, so that norms and activations stay
  // with what they follow. Candidates that are wider than a neighbour lie inside of a block (a residual edge spans
  // them).
  std::vector<std::size_t> find_cuts() const {
    constexpr std::size_t kNeighbours = 6;
    const std::vector<Gap> gaps = measure_gaps();
    std::vector<std::size_t> candidates;
    std::size_t begin = 0;
    bool is_first = true;
    for (std::size_t n = 0; n < r_.forward.size(); ++n) {
      if (!is_dear(graph(), graph().at(r_.forward[n]))) continue;
      if (!is_first) {
        std::size_t best = begin;
        for (std::size_t g = begin; g < n; ++g) best = gaps[best].tensors >= gaps[g].tensors ? g : best;
        candidates.push_back(best);
      }
      is_first = false;
      begin = n;
    }
    std::vector<std::size_t> cuts;
    for (std::size_t c = 0; c < candidates.size(); ++c) {
      const std::size_t from = c - std::min(c, kNeighbours);
      const std::size_t to = std::min(candidates.size(), c + kNeighbours + 1);
      const bool is_narrow = std::all_of(
          candidates.begin() + static_cast<std::ptrdiff_t>(from), candidates.begin() + static_cast<std::ptrdiff_t>(to),
          [&](std::size_t other) { return gaps[candidates[c]].tensors <= gaps[other].tensors; });
      if (is_narrow) cuts.push_back(candidates[c]);
    }
    return cuts;
  }

  Layer make_layer(std::size_t begin, std::size_t end) const {
    Layer out;
    bool has_dear = false;
    for (std::size_t n = begin; n < end; ++n) {
      const NodeId id = r_.forward[n];
      out.nodes.push_back(id);
      out.ms += r_.ms_of(id);
      const bool is_first_dear = !has_dear && is_dear(graph(), graph().at(id));
      has_dear |= is_first_dear;
      if (out.name.empty() || is_first_dear) out.name = graph().at(id).layer;
      for (const TensorId output : graph().at(id).outputs) {
        const bool is_kept = r_.first_use[output.index] < static_cast<Position>(r_.backward.size()) &&
                             r_.store_all[output.index] == kFromForward;
        if (is_kept) out.kept_bytes += r_.bytes_of(output);
      }
    }
    for (std::size_t n = 0; n < end; ++n) {
      for (const TensorId output : graph().at(r_.forward[n]).outputs) {
        if (last_read_[output.index] < static_cast<std::int64_t>(end)) continue;
        out.boundary.push_back(output);
        out.boundary_bytes += r_.bytes_of(output);
      }
    }
    return out;
  }

  static void name_uniquely(std::vector<Layer>& layers) {
    std::map<std::string, int> seen;
    for (Layer& layer : layers) {
      const int count = ++seen[layer.name];
      if (count > 1) layer.name += fmt::format("#{}", count);
    }
  }

  const Recompute& r_;
  std::vector<std::int64_t> last_read_;  // per tensor: index into forward; -1: never by forward
};

}  // namespace

std::vector<Layer> find_layers(const Recompute& r) { return Finder(r).run(); }

Position backward_begins(const Recompute& r, std::span<const Layer> layers) {
  auto first = static_cast<Position>(r.backward.size());
  for (const Layer& layer : layers) {
    for (const NodeId id : layer.nodes) {
      for (const TensorId output : r.problem.graph.at(id).outputs) first = std::min(first, r.first_use[output.index]);
    }
  }
  return first;
}

void drop_inside(const Recompute& r, std::span<const Layer> segment, Retention& retention) {
  const Position begin = backward_begins(r, segment);
  for (const Layer& layer : segment) {
    for (const NodeId id : layer.nodes) {
      for (const TensorId output : r.problem.graph.at(id).outputs) retention[output.index] = begin;
    }
  }
}

Retention retention_of(const Recompute& r, std::span<const Layer> layers, std::span<const int> granularities) {
  Retention out = r.store_all;
  for (std::size_t begin = 0; begin < layers.size();) {
    const int n = granularities[begin];
    std::size_t end = begin + 1;
    while (end < layers.size() && granularities[end] == n && static_cast<int>(end - begin) < n) ++end;
    if (n != kStoreAll) {
      drop_inside(r, layers.subspan(begin, end - begin), out);
      for (const std::size_t edge : {begin, end}) {  // what comes in, and what goes out
        if (edge == 0 || edge == layers.size()) continue;
        for (const TensorId id : layers[edge - 1].boundary) out[id.index] = kFromForward;
      }
    }
    begin = end;
  }
  return out;
}

}  // namespace neap
