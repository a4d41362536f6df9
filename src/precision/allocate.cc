#include "precision/allocate.h"

#include <algorithm>
#include <cmath>
#include <queue>

namespace neap::precision {
namespace {

struct Option {
  Level level;
  std::int64_t bytes;
  double variance;
};

// The options of an item that no other beats, most bytes first; variance then rises from 0: FP32 is always allowed, and
// gives way only to a level that is exact too.
std::vector<Option> frontier(const AllocationItem& item, std::span<const Level> levels) {
  std::vector<Option> all = {{Level::kFp32, encoded_bytes(Level::kFp32, item.elements), 0}};
  for (const Level level : levels) {
    const double variance = item.variance[index_of(level)];
    if (level != Level::kFp32 && std::isfinite(variance)) {
      all.push_back({level, encoded_bytes(level, item.elements), variance});
    }
  }
  std::sort(all.begin(), all.end(), [](const Option& a, const Option& b) {
    return a.variance != b.variance ? a.variance < b.variance : a.bytes < b.bytes;
  });
  std::vector<Option> kept;
  for (const Option& o : all) {
    if (kept.empty() || o.bytes < kept.back().bytes) kept.push_back(o);
  }
  return kept;
}

double gain(const Option& from, const Option& to) {
  const auto saved = static_cast<double>(from.bytes - to.bytes);
  const double added = to.variance - from.variance;
  return added > 0 ? saved / added : INFINITY;
}

// Of a frontier: the options at which the gain of each step is less than that of the step before.
std::vector<Option> hull(const std::vector<Option>& options) {
  std::vector<Option> kept;
  for (const Option& o : options) {
    while (kept.size() >= 2 && gain(kept[kept.size() - 2], kept.back()) <= gain(kept.back(), o)) kept.pop_back();
    kept.push_back(o);
  }
  return kept;
}

struct Step {
  double gain;
  std::size_t item;
  std::size_t to;
  // The greatest gain first; ties by the item's place.
  bool operator<(const Step& other) const { return gain != other.gain ? gain < other.gain : item > other.item; }
};

// A state of the dynamic program: the choice for the last item, and the state of the items before it.
struct State {
  std::int64_t bytes;
  double variance;
  std::uint32_t before;
  Level level;
};

// All of `from` extended by each option, without what another beats; by bytes, ascending, variance then falls.
std::vector<State> extended(const std::vector<State>& from, const std::vector<Option>& options, double target) {
  std::vector<State> all;
  all.reserve(from.size() * options.size());
  for (std::uint32_t s = 0; s < from.size(); ++s) {
    for (const Option& o : options) {
      const double variance = from[s].variance + o.variance;
      if (variance <= target) all.push_back({from[s].bytes + o.bytes, variance, s, o.level});
    }
  }
  std::sort(all.begin(), all.end(), [](const State& a, const State& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.variance < b.variance;
  });
  std::vector<State> kept;
  for (const State& s : all) {
    if (kept.empty() || s.variance < kept.back().variance) kept.push_back(s);
  }
  return kept;
}

}  // namespace

Allocation allocate_greedily(std::span<const AllocationItem> items, std::span<const Level> levels, double target) {
  std::vector<std::vector<Option>> options;
  std::priority_queue<Step> queue;
  Allocation result;
  for (std::size_t i = 0; i < items.size(); ++i) {
    options.push_back(hull(frontier(items[i], levels)));
    const std::vector<Option>& own = options.back();
    result.levels.push_back(own[0].level);
    result.bytes += own[0].bytes;
    if (own.size() > 1) queue.push({gain(own[0], own[1]), i, 1});
  }
  while (!queue.empty()) {
    const Step step = queue.top();
    queue.pop();
    const std::vector<Option>& own = options[step.item];
    const Option& from = own[step.to - 1];
    const Option& to = own[step.to];
    // An item whose next step does not fit stays: its later steps add more.
    if (result.variance + (to.variance - from.variance) > target) continue;
    result.variance += to.variance - from.variance;
    result.bytes -= from.bytes - to.bytes;
    result.levels[step.item] = to.level;
    if (step.to + 1 < own.size()) queue.push({gain(to, own[step.to + 1]), step.item, step.to + 1});
  }
  return result;
}

Allocation with_spare_bytes(std::span<const AllocationItem> items, std::span<const Level> levels, Allocation from,
                            std::int64_t most_bytes) {
  struct Choice {
    std::vector<Option> options;
    std::size_t at = 0;
  };
  std::vector<Choice> choices;
  for (std::size_t i = 0; i < items.size(); ++i) {
    Choice c{.options = frontier(items[i], levels)};
    while (c.options[c.at].level != from.levels[i]) ++c.at;
    choices.push_back(std::move(c));
  }
  // The least gain in bytes a unit of variance is the best step back.
  for (;;) {
    std::size_t best = items.size();
    double least = INFINITY;
    for (std::size_t i = 0; i < items.size(); ++i) {
      const Choice& c = choices[i];
      if (c.at == 0) continue;
      const Option& finer = c.options[c.at - 1];
      if (from.bytes + finer.bytes - c.options[c.at].bytes > most_bytes) continue;
      if (const double price = gain(finer, c.options[c.at]); price < least) {
        least = price;
        best = i;
      }
    }
    if (best == items.size()) return from;
    Choice& c = choices[best];
    const Option& finer = c.options[c.at - 1];
    from.bytes += finer.bytes - c.options[c.at].bytes;
    from.variance -= c.options[c.at].variance - finer.variance;
    from.levels[best] = finer.level;
    --c.at;
  }
}

std::optional<Allocation> allocate_exactly(std::span<const AllocationItem> items, std::span<const Level> levels,
                                           double target, std::size_t max_states) {
  std::vector<std::vector<State>> stages = {{{0, 0, 0, Level::kFp32}}};
  std::size_t total = 1;
  for (const AllocationItem& item : items) {
    stages.push_back(extended(stages.back(), frontier(item, levels), target));
    total += stages.back().size();
    if (total > max_states) return std::nullopt;
  }
  Allocation result;
  result.bytes = stages.back()[0].bytes;
  result.variance = stages.back()[0].variance;
  std::uint32_t at = 0;
  for (std::size_t stage = items.size(); stage > 0; --stage) {
    result.levels.insert(result.levels.begin(), stages[stage][at].level);
    at = stages[stage][at].before;
  }
  return result;
}

}  // namespace neap::precision
