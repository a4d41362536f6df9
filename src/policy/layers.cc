#include "policy/layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "graph/op.h"

namespace neap {
namespace {

// Work of a kind that memory traffic does not explain: products, convolutions, attention, recurrent cells.
bool is_dear(const Graph& graph, const Node& node) {
  constexpr double kFlopsPerElement = 16;
  const OpCall call = call_of(graph, node);
  double elements = 0;
  for (const TensorType& t : call.outputs) elements += static_cast<double>(t.elements());
  for (const TensorId id : node.inputs) {
    if (id && !is_state(graph.at(id).role)) elements += static_cast<double>(graph.at(id).type.elements());
  }
  return !node.op->cheap && flops_of(call) > kFlopsPerElement * elements;
}

// Gap g lies between forward nodes g and g + 1.
struct Gap {
  int tensors = 0;  // that cross it; parts of one whole count once
  std::int64_t bytes = 0;
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
    constexpr std::int64_t kSmall = 16;  // what is this many times smaller than all that crosses does not count
    std::map<TensorId, std::pair<std::size_t, std::size_t>> spans;  // per whole: made at, read last at
    for (std::size_t n = 0; n < r_.forward.size(); ++n) {
      for (const TensorId id : graph().at(r_.forward[n]).outputs) {
        const auto read = static_cast<std::size_t>(std::max<std::int64_t>(last_read_[id.index], 0));
        const auto [at, is_new] = spans.try_emplace(r_.whole_of(id), n, read);
        at->second.second = std::max(at->second.second, read);
      }
    }
    std::vector<Gap> gaps(r_.forward.size());
    for (const auto& [id, span] : spans) {
      for (std::size_t g = span.first; g < span.second; ++g) gaps[g].bytes += r_.bytes_of(id);
    }
    for (const auto& [id, span] : spans) {
      for (std::size_t g = span.first; g < span.second; ++g)
        gaps[g].tensors += r_.bytes_of(id) * kSmall >= gaps[g].bytes;
    }
    return gaps;
  }

  // Between two dear nodes the narrowest gap is a candidate, the last one of equals, so that norms and activations stay
  // with what they follow.
  std::vector<std::size_t> find_candidates(const std::vector<Gap>& gaps) const {
    std::vector<std::size_t> out;
    std::optional<std::size_t> before;  // the last dear node
    for (std::size_t n = 0; n < r_.forward.size(); ++n) {
      if (!is_dear(graph(), graph().at(r_.forward[n]))) continue;
      if (before) {
        std::size_t best = *before;
        for (std::size_t g = *before; g < n; ++g) best = gaps[best].tensors >= gaps[g].tensors ? g : best;
        out.push_back(best);
      }
      before = n;
    }
    return out;
  }

  // A candidate with a narrower one near on either side lies inside of a block: a residual edge spans it.
  std::vector<std::size_t> find_cuts() const {
    constexpr std::size_t kNear = 6;
    const std::vector<Gap> gaps = measure_gaps();
    const std::vector<std::size_t> candidates = find_candidates(gaps);
    std::vector<std::size_t> cuts;
    for (std::size_t c = 0; c < candidates.size(); ++c) {
      const int width = gaps[candidates[c]].tensors;
      bool is_narrower_before = c < kNear;
      bool is_narrower_behind = c + kNear >= candidates.size();
      for (std::size_t k = 1; k <= kNear; ++k) {
        if (c >= k) is_narrower_before |= gaps[candidates[c - k]].tensors < width;
        if (c + k < candidates.size()) is_narrower_behind |= gaps[candidates[c + k]].tensors < width;
      }
      if (width <= 1 || !is_narrower_before || !is_narrower_behind) cuts.push_back(candidates[c]);
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
        const bool is_kept = r_.is_used(output) && r_.store_all[r_.first_wait(output)] == kThrough;
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
      for (const TensorId output : r.problem.graph.at(id).outputs) first = std::min(first, r.first_use(output));
    }
  }
  return first;
}

void drop_inside(const Recompute& r, std::span<const Layer> segment, Retention& retention) {
  const Position begin = backward_begins(r, segment);
  for (const Layer& layer : segment) {
    for (const NodeId id : layer.nodes) {
      for (const TensorId output : r.problem.graph.at(id).outputs) retention[r.first_wait(output)] = begin;
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
        for (const TensorId id : layers[edge - 1].boundary) out[r.first_wait(id)] = kThrough;
      }
    }
    begin = end;
  }
  return out;
}

}  // namespace neap
