// The layers as a chain: a dynamic program over where to checkpoint and what each layer keeps, segments within segments
// included (in the manner of rotor: Beaumont et al., "Optimal re-materialization strategies for heterogeneous chains").
#pragma once

#include <limits>
#include <span>
#include <vector>

#include "policy/layers.h"

namespace neap {

// What a layer may keep for its backward, and what that costs.
struct LayerOption {
  std::vector<TensorId> kept;
  std::int64_t bytes = 0;
  double ms = 0;  // of what is computed again inside of the layer
};

// At most eight, none both larger and slower than another; the first keeps the most. Tensors that are dear to compute
// and small are kept first.
std::vector<LayerOption> options_of(const Recompute& r, const Layer& layer);

// Of options from the least bytes, the slowest, to the most, as many go as are too many: each time the one that differs
// the least from its neighbours.
template <class Option>
void thin_out(std::vector<Option>& options, std::size_t most) {
  const auto span = [&](std::size_t i) {
    return (options[i - 1].ms - options[i + 1].ms) * static_cast<double>(options[i + 1].bytes - options[i - 1].bytes);
  };
  while (options.size() > most) {
    std::size_t least = 1;
    for (std::size_t i = 2; i + 1 < options.size(); ++i) least = span(i) < span(least) ? i : least;
    options.erase(options.begin() + static_cast<std::ptrdiff_t>(least));
  }
}

// A layer, or several in a row as one, where there are too many.
struct ChainLink {
  std::span<const Layer> layers;
  std::vector<LayerOption> options;
  std::int64_t boundary = 0;
  std::int64_t inside = 0;  // the most that its backward has at one time beside what is kept
  double ms = 0;
};

class LayerChain {
 public:
  static constexpr int kSlots = 200;  // into which memory is divided
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  LayerChain(const Recompute& r, std::span<const Layer> layers);

  const Recompute& recompute() const { return r_; }
  std::span<const ChainLink> links() const { return links_; }
  int slots(std::int64_t bytes) const { return static_cast<int>((bytes + slot_bytes_ - 1) / slot_bytes_); }

  // The best ways through the chain for memory from the least to the most, as the program sees it: what the planner
  // makes of them differs (tensors share bytes, kernels need workspaces), so the caller judges them.
  std::vector<Retention> retentions() const;

  // Links [first, last], forward and backward, their input being there; kNever: not in so many slots.
  double segment_ms(std::size_t first, std::size_t last, int slots) const { return best_at(first, last, slots).ms; }

  // A retention in which nothing is kept for longer than it is used, and what to add to it: that links [first, last]
  // run as the program says, from a position of backward on; that one keeps an option's tensors; that one's boundary
  // waits.
  Retention nothing() const;
  void add_segment(std::size_t first, std::size_t last, int slots, Position from, Retention& to) const;
  void add_option(const ChainLink& link, const LayerOption& option, Position from, Retention& to) const;
  void add_boundary(const ChainLink& link, Position from, Retention& to) const;
  // Where backward of these links begins: from there on the inside of a segment is kept.
  Position begin_of(std::size_t first, std::size_t last) const;

 private:
  // Of links [first, last]: forward and backward, its input being there. Kept what: an option of the first link
  // (checkpoint 0), or the input of link `checkpoint`.
  struct Best {
    double ms = kNever;
    std::uint16_t option = 0;
    std::uint16_t checkpoint = 0;
  };

  std::size_t index_of(std::size_t first, std::size_t last, int slots) const {
    return (first * links_.size() + last) * (kSlots + 1) + static_cast<std::size_t>(slots);
  }
  const Best& best_at(std::size_t first, std::size_t last, int slots) const {
    return table_[index_of(first, last, slots)];
  }
  void solve();
  Best solve(std::size_t first, std::size_t last, int slots) const;
  void keep(TensorId id, Position from, Retention& to) const;

  const Recompute& r_;
  std::vector<ChainLink> links_;
  std::int64_t slot_bytes_ = 1;
  std::vector<Best> table_;
};

}  // namespace neap
