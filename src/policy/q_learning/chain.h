// The checkpointing problem as the agent sees it: layers in a row, an action each, a limit on what is kept.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace neap::q_learning {

struct ChainLayer {
  double input_bytes = 0;   // what a checkpoint in front of it keeps
  double inside_bytes = 0;  // what backward reads of it beside that
  double cheap_bytes = 0;   // of those inside: what little computation makes again
  double ms = 0;            // its forward calls
  double cheap_ms = 0;      // of those: the ones that make cheap_bytes
  double bandwidth = 0;     // share of the machine's that it uses
};

struct Chain {
  std::vector<ChainLayer> layers;
  double budget = 0;  // for what is kept between forward and backward, and for the segment that is made again

  double total_ms() const;
  double total_bytes() const;
};

// What can be said of a layer. `every` checkpoints in front of it and makes it and the layers behind it again, as many
// as it says (1: itself alone).
struct Choice {
  enum class Kind : std::uint8_t { kStore, kCheap, kEvery } kind = Kind::kStore;
  std::int32_t every = 0;
  friend bool operator==(const Choice&, const Choice&) = default;
};

// The actions that are offered: store all, make what is cheap again, every layer, every N layers for each N.
std::vector<Choice> choices_of(std::span<const int> every);

// "document" is the reward of the source document's example: -memory - 0.1 * time.
struct Reward {
  std::string name = "constrained";
  double time = 1;
  double memory = 0;
  double bandwidth = 0;
};
// UserError for a name that there is not.
Reward reward_named(std::string_view name);

// What one choice costs: bytes that stay, bytes that it needs for a while, time, and the bandwidth's share.
struct Effect {
  double kept = 0;
  double passing = 0;  // of the segment while it is made again
  double ms = 0;
  double traffic = 0;
  std::size_t layers = 1;  // that the choice covers
};
Effect effect_of(const Chain& chain, std::size_t at, const Choice& choice);

// In parts of the whole chain's time and bytes, so that it means the same for every network.
double reward_of(const Reward& reward, const Chain& chain, const Effect& effect);

// One choice a segment, left to right; segments cover all layers.
using Choices = std::vector<Choice>;

struct Outcome {
  double added_ms = 0;
  double peak = 0;  // kept at the end of forward, and the largest segment on top of it
  double reward = 0;
  bool fits = false;
};
Outcome outcome_of(const Chain& chain, const Choices& choices, const Reward& reward);

// The exact solution, to the width of a bin of the budget: a dynamic program over layers and bytes left.
class ExactPlan {
 public:
  ExactPlan(const Chain& chain, std::span<const Choice> offered, const Reward& reward, int bins = 256);
  // None: nothing fits.
  std::optional<Choices> choices() const;
  // The most reward from layer i on with so many bytes left; -infinity where nothing fits.
  double value(std::size_t layer, double left) const;

 private:
  int bins_of(double bytes) const;
  std::size_t index(std::size_t layer, int left) const;
  void fill(std::size_t layer, const Reward& reward);

  const Chain& chain_;
  std::span<const Choice> offered_;
  int bins_;
  double width_;
  std::vector<double> value_;      // [layer][bins left]
  std::vector<std::int8_t> best_;  // index into the choices offered; -1: none
};

// The least bytes with which the layers from i on can be had, for every i: what may still be chosen is judged by it.
std::vector<double> least_bytes(const Chain& chain, std::span<const Choice> offered);

}  // namespace neap::q_learning
