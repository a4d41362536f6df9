#include "policy/chain.h"

#include <algorithm>

#include "core/bytes.h"

namespace neap {
namespace {

constexpr std::int64_t kTiny = 16 * kKiB;  // not worth a thought: statistics, row sums
constexpr std::size_t kMostOptions = 8;
constexpr std::size_t kMostLinks = 40;  // longer chains are taken several layers at a time

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
  thin_out(out, kMostOptions);
  std::reverse(out.begin(), out.end());
  return out;
}

namespace {

ChainLink join(const Recompute& r, std::span<const Layer> layers) {
  ChainLink out{.layers = layers, .boundary = layers.back().boundary_bytes};
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

}  // namespace

LayerChain::LayerChain(const Recompute& r, std::span<const Layer> layers) : r_(r) {
  const std::size_t step = (layers.size() + kMostLinks - 1) / kMostLinks;
  for (std::size_t i = 0; i < layers.size(); i += step) {
    links_.push_back(join(r, layers.subspan(i, std::min(step, layers.size() - i))));
  }
  std::int64_t all = 0;
  for (const ChainLink& link : links_) all += std::max(link.options.front().bytes, link.inside);
  slot_bytes_ = std::max<std::int64_t>(1, all / kSlots + 1);
  solve();
}

std::vector<Retention> LayerChain::retentions() const {
  std::vector<Retention> out;
  double last = kNever;
  for (int m = 0; m <= kSlots; ++m) {
    const double ms = segment_ms(0, links_.size() - 1, m);
    if (ms >= last) continue;  // more memory that buys nothing
    last = ms;
    add_segment(0, links_.size() - 1, m, kThrough, out.emplace_back(nothing()));
  }
  return out;
}

void LayerChain::solve() {
  table_.resize(links_.size() * links_.size() * (kSlots + 1));
  for (std::size_t length = 1; length <= links_.size(); ++length) {
    for (std::size_t first = 0; first + length <= links_.size(); ++first) {
      const std::size_t last = first + length - 1;
      for (int m = 0; m <= kSlots; ++m) table_[index_of(first, last, m)] = solve(first, last, m);
    }
  }
}

LayerChain::Best LayerChain::solve(std::size_t first, std::size_t last, int m) const {
  Best best;
  const ChainLink& link = links_[first];
  if (m >= slots(link.inside)) {
    const auto count = static_cast<std::uint16_t>(link.options.size());
    for (std::uint16_t o = 0; o < count; ++o) {
      const int left = m - slots(link.options[o].bytes);
      if (left < 0) continue;
      const double rest = first == last ? 0 : segment_ms(first + 1, last, left);
      const double ms = link.ms + link.options[o].ms + rest;
      if (ms < best.ms) best = {.ms = ms, .option = o};
    }
  }
  double forward = 0;
  for (std::size_t j = first + 1; j <= last; ++j) {
    forward += links_[j - 1].ms;
    const int left = m - slots(links_[j - 1].boundary);
    if (left < 0) continue;
    const double ms = forward + segment_ms(j, last, left) + segment_ms(first, j - 1, m);
    if (ms < best.ms) best = {.ms = ms, .checkpoint = static_cast<std::uint16_t>(j)};
  }
  return best;
}

Retention LayerChain::nothing() const {
  Retention out(r_.ends.size(), kThrough);
  for (std::uint32_t i = 0; i + 1 < r_.waits.size(); ++i) out[r_.waits[i]] = r_.first_use({i});
  return out;
}

void LayerChain::keep(TensorId id, Position from, Retention& to) const {
  Position& at = to[r_.first_wait(id)];
  at = std::min(at, from);
}

void LayerChain::add_boundary(const ChainLink& link, Position from, Retention& to) const {
  for (const TensorId id : link.layers.back().boundary) keep(id, from, to);
}

void LayerChain::add_option(const ChainLink& link, const LayerOption& option, Position from, Retention& to) const {
  for (const TensorId id : option.kept) keep(id, from, to);
  for (const Layer& layer : link.layers) {
    const Position begin = backward_begins(r_, {&layer, 1});
    for (const NodeId node : layer.nodes) {
      for (const TensorId id : r_.problem.graph.at(node).outputs) keep(id, std::max(from, begin), to);
    }
  }
}

Position LayerChain::begin_of(std::size_t first, std::size_t last) const {
  return backward_begins(r_, {&links_[first].layers.front(), &links_[last].layers.back() + 1});
}

void LayerChain::add_segment(std::size_t first, std::size_t last, int slots_left, Position from, Retention& to) const {
  const Best best = best_at(first, last, slots_left);
  if (best.checkpoint != 0) {
    const ChainLink& before = links_[best.checkpoint - 1U];
    add_boundary(before, from, to);
    add_segment(best.checkpoint, last, slots_left - slots(before.boundary), from, to);
    const std::size_t end = best.checkpoint - 1U;
    return add_segment(first, end, slots_left, begin_of(first, end), to);
  }
  const LayerOption& option = links_[first].options[best.option];
  add_option(links_[first], option, from, to);
  if (first < last) add_segment(first + 1, last, slots_left - slots(option.bytes), from, to);
}

}  // namespace neap
