#include "policy/q_learning/chain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "neap/error.h"

namespace neap::q_learning {

double Chain::total_ms() const {
  double sum = 0;
  for (const ChainLayer& l : layers) sum += l.ms;
  return std::max(sum, 1e-9);
}

double Chain::total_bytes() const {
  double sum = 0;
  for (const ChainLayer& l : layers) sum += l.input_bytes + l.inside_bytes;
  return std::max(sum, 1.0);
}

std::vector<Choice> choices_of(std::span<const int> every) {
  std::vector<Choice> out = {{.kind = Choice::Kind::kStore}, {.kind = Choice::Kind::kCheap}};
  out.push_back({.kind = Choice::Kind::kEvery, .every = 1});
  for (const int n : every) out.push_back({.kind = Choice::Kind::kEvery, .every = n});
  return out;
}

Reward reward_named(std::string_view name) {
  if (name == "constrained") return {};
  if (name == "document") return {.name = "document", .time = 0.1, .memory = 1};
  throw UserError(fmt::format("there is no reward '{}'; take constrained or document", name));
}

Effect effect_of(const Chain& chain, std::size_t at, const Choice& choice) {
  const ChainLayer& first = chain.layers[at];
  Effect out{.kept = first.input_bytes, .traffic = first.bandwidth};
  if (choice.kind == Choice::Kind::kStore) {
    out.kept += first.inside_bytes;
    return out;
  }
  if (choice.kind == Choice::Kind::kCheap) {
    out.kept += first.inside_bytes - first.cheap_bytes;
    out.passing = first.cheap_bytes;
    out.ms = first.cheap_ms;
    return out;
  }
  out.layers = std::min(static_cast<std::size_t>(choice.every), chain.layers.size() - at);
  out.passing = -first.input_bytes;
  for (std::size_t i = at; i < at + out.layers; ++i) {
    out.passing += chain.layers[i].input_bytes + chain.layers[i].inside_bytes;
    out.ms += chain.layers[i].ms;
    out.traffic = std::max(out.traffic, chain.layers[i].bandwidth);
  }
  return out;
}

double reward_of(const Reward& reward, const Chain& chain, const Effect& effect) {
  return -(reward.time * effect.ms / chain.total_ms() + reward.memory * effect.kept / chain.total_bytes() +
           reward.bandwidth * effect.traffic * effect.ms / chain.total_ms());
}

Outcome outcome_of(const Chain& chain, const Choices& choices, const Reward& reward) {
  Outcome out;
  double kept = 0;
  std::size_t at = 0;
  for (const Choice& choice : choices) {
    const Effect e = effect_of(chain, at, choice);
    kept += e.kept;
    // When a segment is made again, what lies behind it is gone: only what was kept up to here is there.
    out.peak = std::max(out.peak, kept + e.passing);
    out.added_ms += e.ms;
    out.reward += reward_of(reward, chain, e);
    at += e.layers;
  }
  out.peak = std::max(out.peak, kept);
  out.fits = at == chain.layers.size() && out.peak <= chain.budget;
  return out;
}

namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

}  // namespace

ExactPlan::ExactPlan(const Chain& chain, std::span<const Choice> offered, const Reward& reward, int bins)
    : chain_(chain), offered_(offered), bins_(bins), width_(std::max(chain.budget, 1e-9) / bins) {
  const std::size_t count = chain.layers.size();
  const auto row = static_cast<std::size_t>(bins) + 1;
  value_.assign((count + 1) * row, kNever);
  best_.assign(count * row, -1);
  std::fill_n(value_.begin() + static_cast<std::ptrdiff_t>(count * row), row, 0.0);
  for (std::size_t i = count; i-- > 0;) fill(i, reward);
}

int ExactPlan::bins_of(double bytes) const {
  const double bins = std::ceil(std::max(bytes, 0.0) / width_ - 1e-9);
  return static_cast<int>(std::min(bins, static_cast<double>(bins_) + 1));
}

std::size_t ExactPlan::index(std::size_t layer, int left) const {
  return layer * (static_cast<std::size_t>(bins_) + 1) + static_cast<std::size_t>(left);
}

void ExactPlan::fill(std::size_t layer, const Reward& reward) {
  for (std::size_t c = 0; c < offered_.size(); ++c) {
    const Effect e = effect_of(chain_, layer, offered_[c]);
    const int kept = bins_of(e.kept);
    const double gain = reward_of(reward, chain_, e);
    for (int left = std::max(bins_of(e.kept + e.passing), kept); left <= bins_; ++left) {
      const double value = gain + value_[index(layer + e.layers, left - kept)];
      double& best = value_[index(layer, left)];
      if (value <= best) continue;
      best = value;
      best_[index(layer, left)] = static_cast<std::int8_t>(c);
    }
  }
}

std::optional<Choices> ExactPlan::choices() const {
  Choices out;
  int left = bins_;
  for (std::size_t i = 0; i < chain_.layers.size();) {
    const std::int8_t c = best_[index(i, left)];
    if (c < 0) return std::nullopt;
    const Choice& choice = offered_[static_cast<std::size_t>(c)];
    const Effect e = effect_of(chain_, i, choice);
    out.push_back(choice);
    left -= bins_of(e.kept);
    i += e.layers;
  }
  return out;
}

double ExactPlan::value(std::size_t layer, double left) const {
  const int bins = static_cast<int>(std::floor(left / width_ + 1e-9));
  return bins < 0 ? kNever : value_[index(layer, std::min(bins, bins_))];
}

std::vector<double> least_bytes(const Chain& chain, std::span<const Choice> offered) {
  std::vector<double> out(chain.layers.size() + 1, 0.0);
  for (std::size_t i = chain.layers.size(); i-- > 0;) {
    out[i] = std::numeric_limits<double>::infinity();
    for (const Choice& choice : offered) {
      const Effect e = effect_of(chain, i, choice);
      out[i] = std::min(out[i], e.kept + std::max(e.passing, out[i + e.layers]));
    }
  }
  return out;
}

}  // namespace neap::q_learning
