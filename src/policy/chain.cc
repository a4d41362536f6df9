#include "policy/chain.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/bytes.h"

namespace neap {
namespace {

constexpr std::int64_t kTiny = 16 * kKiB;  // not worth a thought: statistics, row sums
constexpr std::size_t kMostOptions = 8;
constexpr std::size_t kMostLinks = 40;  // longer chains are taken several layers at a time
constexpr int kSlots = 200;             // into which memory is divided
constexpr double kNever = std::numeric_limits<double>::infinity();

// Milliseconds to make what backward reads of a layer when only `is_kept` and what comes from outside is there.
class Remake {
 public:
  Remake(const Recompute& r, const Layer& layer, const std::vector<bool>& is_kept)
      : r_(r), layer_(layer), is_kept_(is_kept) {}

  double ms() {
    for (const NodeId id : layer_.nodes) {
      for (const TensorId output : r_.problem.graph.at(id).outputs) {
        if (r_.is_used(output)) need(output);
      }
    }
    return ms_;
  }

 private:
  void need(TensorId id) {
    const NodeId producer = r_.problem.graph.at(id).producer;
    const bool is_inside = producer >= layer_.nodes.front() && producer <= layer_.nodes.back();
    if (!is_inside || is_kept_[id.index] || std::find(done_.begin(), done_.end(), producer) != done_.end()) return;
    done_.push_back(producer);
    ms_ += r_.ms_of(producer);
    for (const TensorId input : r_.reads[producer.index]) need(input);
  }

  const Recompute& r_;
  const Layer& layer_;
  const std::vector<bool>& is_kept_;
  std::vector<NodeId> done_;
  double ms_ = 0;
};

}  // namespace

std::vector<LayerOption> options_of(const Recompute& r, const Layer& layer) {
  const Graph& graph = r.problem.graph;
  const std::vector<bool>& is_forward = r.is_forward;
  std::vector<TensorId> choices;
  std::vector<bool> is_kept(graph.tensors.size());
  LayerOption always;
  const auto keep = [&](LayerOption& option, TensorId id) {
    if (is_kept[id.index]) return;
    is_kept[id.index] = true;
    option.kept.push_back(id);
    option.bytes += r.bytes_of(id);
  };
  for (const TensorId id : layer.boundary) {
    if (graph.at(id).producer >= layer.nodes.front()) keep(always, id);
  }
  for (const NodeId node : layer.nodes) {
    for (const TensorId id : graph.at(node).outputs) {
      if (!is_forward[id.index] || is_kept[id.index]) continue;
      if (r.bytes_of(id) <= kTiny) {
        keep(always, id);
      } else if (r.store_all[r.first_wait(id)] == kThrough) {
        choices.push_back(id);
      }
    }
  }
  std::stable_sort(choices.begin(), choices.end(), [&](TensorId a, TensorId b) {
    const auto worth = [&](TensorId id) {
      return r.ms_of(graph.at(id).producer) / static_cast<double>(r.bytes_of(id));
    };
    return worth(a) > worth(b);
  });
  always.ms = Remake(r, layer, is_kept).ms();
  std::vector<LayerOption> out = {always};
  LayerOption next = always;
  for (const TensorId id : choices) {
    keep(next, id);
    next.ms = Remake(r, layer, is_kept).ms();
    if (next.ms < out.back().ms) out.push_back(next);
  }
  while (out.size() > kMostOptions) {  // the one that differs the least from its neighbours goes
    std::size_t least = 1;
    const auto span = [&](std::size_t i) {
      return (out[i - 1].ms - out[i + 1].ms) * static_cast<double>(out[i + 1].bytes - out[i - 1].bytes);
    };
    for (std::size_t i = 2; i + 1 < out.size(); ++i) least = span(i) < span(least) ? i : least;
    out.erase(out.begin() + static_cast<std::ptrdiff_t>(least));
  }
  std::reverse(out.begin(), out.end());
  return out;
}

namespace {

struct Link {
  std::span<const Layer> layers;
  std::vector<LayerOption> options;
  std::int64_t boundary = 0;
  std::int64_t inside = 0;  // the most that its backward has at one time beside what is kept
  double ms = 0;
};

// Layers in a row as one, where there are too many.
Link join(const Recompute& r, std::span<const Layer> layers) {
  Link out{.layers = layers, .boundary = layers.back().boundary_bytes};
  LayerOption most;
  LayerOption least;
  for (const Layer& layer : layers) {
    const std::vector<LayerOption> options = options_of(r, layer);
    if (layers.size() == 1) out.options = options;
    out.ms += layer.ms;
    out.inside = std::max(out.inside, options.front().bytes);
    for (const auto& [sum, option] : {std::pair(&most, &options.front()), std::pair(&least, &options.back())}) {
      sum->kept.insert(sum->kept.end(), option->kept.begin(), option->kept.end());
      sum->bytes += option->bytes;
      sum->ms += option->ms;
    }
  }
  if (layers.size() > 1) out.options = {most, least};
  return out;
}

class Chain {
 public:
  Chain(const Recompute& r, std::span<const Layer> layers) : r_(r) {
    const std::size_t step = (layers.size() + kMostLinks - 1) / kMostLinks;
    for (std::size_t i = 0; i < layers.size(); i += step) {
      links_.push_back(join(r, layers.subspan(i, std::min(step, layers.size() - i))));
    }
    std::int64_t all = 0;
    for (const Link& link : links_) all += std::max(link.options.front().bytes, link.inside);
    slot_bytes_ = std::max<std::int64_t>(1, all / kSlots + 1);
    solve();
  }

  std::vector<Retention> run() {
    std::vector<Retention> out;
    double last = kNever;
    for (int m = 0; m <= kSlots; ++m) {
      const double ms = best_at(0, links_.size() - 1, m).ms;
      if (ms >= last) continue;  // more memory that buys nothing
      last = ms;
      retention_.assign(r_.ends.size(), kThrough);
      for (std::uint32_t i = 0; i + 1 < r_.waits.size(); ++i) retention_[r_.waits[i]] = r_.first_use({i});
      lay_out(0, links_.size() - 1, m, kThrough);
      out.push_back(retention_);
    }
    return out;
  }

 private:
  // Of links [first, last]: forward and backward, its input being there. Kept what: an option of the first link
  // (checkpoint 0), or the input of link `checkpoint`.
  struct Best {
    double ms = kNever;
    std::uint16_t option = 0;
    std::uint16_t checkpoint = 0;
  };

  Best& best_at(std::size_t first, std::size_t last, int slots) {
    return table_[(first * links_.size() + last) * (kSlots + 1) + static_cast<std::size_t>(slots)];
  }

  int slots(std::int64_t bytes) const { return static_cast<int>((bytes + slot_bytes_ - 1) / slot_bytes_); }

  void solve() {
    table_.resize(links_.size() * links_.size() * (kSlots + 1));
    for (std::size_t length = 1; length <= links_.size(); ++length) {
      for (std::size_t first = 0; first + length <= links_.size(); ++first) {
        for (int m = 0; m <= kSlots; ++m) best_at(first, first + length - 1, m) = solve(first, first + length - 1, m);
      }
    }
  }

  Best solve(std::size_t first, std::size_t last, int m) {
    Best best;
    const Link& link = links_[first];
    if (m >= slots(link.inside)) {
      const auto count = static_cast<std::uint16_t>(link.options.size());
      for (std::uint16_t o = 0; o < count; ++o) {
        const int left = m - slots(link.options[o].bytes);
        if (left < 0) continue;
        const double rest = first == last ? 0 : best_at(first + 1, last, left).ms;
        const double ms = link.ms + link.options[o].ms + rest;
        if (ms < best.ms) best = {.ms = ms, .option = o};
      }
    }
    double forward = 0;
    for (std::size_t j = first + 1; j <= last; ++j) {
      forward += links_[j - 1].ms;
      const int left = m - slots(links_[j - 1].boundary);
      if (left < 0) continue;
      const double ms = forward + best_at(j, last, left).ms + best_at(first, j - 1, m).ms;
      if (ms < best.ms) best = {.ms = ms, .checkpoint = static_cast<std::uint16_t>(j)};
    }
    return best;
  }

  void keep(TensorId id, Position from) {
    Position& at = retention_[r_.first_wait(id)];
    at = std::min(at, from);
  }

  void lay_out(std::size_t first, std::size_t last, int m, Position from) {
    const Best best = best_at(first, last, m);
    if (best.checkpoint != 0) {
      const Link& before = links_[best.checkpoint - 1U];
      for (const TensorId id : before.layers.back().boundary) keep(id, from);
      lay_out(best.checkpoint, last, m - slots(before.boundary), from);
      const Layer* begin = &links_[first].layers.front();
      return lay_out(first, best.checkpoint - 1U, m, backward_begins(r_, {begin, &before.layers.back() + 1}));
    }
    const Link& link = links_[first];
    for (const TensorId id : link.options[best.option].kept) keep(id, from);
    for (const Layer& layer : link.layers) {
      const Position begin = backward_begins(r_, {&layer, 1});
      for (const NodeId node : layer.nodes) {
        for (const TensorId id : r_.problem.graph.at(node).outputs) keep(id, std::max(from, begin));
      }
    }
    if (first < last) lay_out(first + 1, last, m - slots(link.options[best.option].bytes), from);
  }

  const Recompute& r_;
  std::vector<Link> links_;
  std::int64_t slot_bytes_ = 1;
  std::vector<Best> table_;
  Retention retention_;
};

}  // namespace

std::vector<Retention> chain_retentions(const Recompute& r, std::span<const Layer> layers) {
  return Chain(r, layers).run();
}

}  // namespace neap
