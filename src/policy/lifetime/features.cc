#include "policy/lifetime/features.h"

#include <algorithm>
#include <cmath>

#include "graph/graph.h"
#include "neap/error.h"

namespace neap {
namespace {

float log_of(double x) { return static_cast<float>(std::log(std::max(1.0, x))); }

// Logarithms of ticks and lengths reach about 8; the network takes numbers of about one.
constexpr float kLogScale = 1.0F / 8;

void put_event(const AllocationEvent& e, Turn turn, float* out) {
  const double ticks = std::max<double>(1, e.ticks);
  const double left = std::max(1.0, ticks - static_cast<double>(e.tick));
  // Forward ends about half-way: what backward wants at the mirrored tick lives that long.
  const double mirrored = std::max(1.0, ticks - 2.0 * static_cast<double>(e.tick));
  *out++ = log_of(static_cast<double>(e.bytes)) / 20;
  *out++ = static_cast<float>(static_cast<double>(e.tick) / ticks);
  *out++ = log_of(ticks) * kLogScale;
  *out++ = log_of(static_cast<double>(e.length) + 1) * kLogScale;
  *out++ = log_of(left) * kLogScale;
  *out++ = log_of(mirrored) * kLogScale;
  *out++ = log_of(1.0 + turn.from_start) / 4;
  *out++ = log_of(1.0 + turn.from_end) / 4;
  *out++ = log_of(1.0 + turn.from_start + turn.from_end) / 4;
  // What is worth keeping, moving or making again changes at a size, mostly at a power of two.
  constexpr std::size_t kFirstMark = 6;
  for (std::size_t mark = 0; mark < kSizeMarks; ++mark) *out++ = e.bytes >> (kFirstMark + mark) != 0 ? 1.0F : 0.0F;
  for (std::uint8_t phase = 0; phase < 3; ++phase) *out++ = e.phase == phase ? 1.0F : 0.0F;
}

void put_estimates(const Estimates& estimates, float base, float* out) {
  for (const Estimate& e : estimates) {
    *out++ = e.is_known ? 1.0F : 0.0F;
    *out++ = e.is_known ? log_of(e.ticks) - base : 0.0F;
    *out++ = e.is_known ? static_cast<float>(std::min(1.0, e.error)) : 1.0F;
  }
  *out++ = base * kLogScale;
  *out++ = 1;  // something is known
}

std::int32_t row(std::uint32_t hash, std::int32_t rows) {
  return static_cast<std::int32_t>(hash % static_cast<std::uint32_t>(rows));
}

}  // namespace

std::int64_t Sequence::bytes() const {
  const std::size_t floats = numbers.size() + base.size() + known.size() + last.size() + target.size();
  return static_cast<std::int64_t>(4 * (floats + op.size() + layer.size() + site.size()));
}

Sequence sequence_of(std::span<const AllocationEvent> step, const SiteHistory* history) {
  Sequence out;
  const std::vector<Turn> turns = turns_of(step);
  out.numbers.resize(step.size() * kNumbers);
  for (std::size_t i = 0; i < step.size(); ++i) {
    const AllocationEvent& e = step[i];
    float* numbers = out.numbers.data() + i * kNumbers;
    put_event(e, turns[i], numbers);
    const Estimates estimates = history != nullptr ? history->estimates(e, turns[i]) : Estimates{};
    const std::size_t best = best_of(estimates);
    const bool is_known = best < kGuesses;
    const float base = is_known ? log_of(estimates[best].ticks) : kUnknownLog;
    if (is_known) put_estimates(estimates, base, numbers + kEventNumbers);
    const Estimate& last = estimates[static_cast<std::size_t>(Guess::kLastFromStart)];
    out.op.push_back(row(e.op, kOpRows));
    out.layer.push_back(row(e.layer, kLayerRows));
    out.site.push_back(row(e.site, kSiteRows));
    out.base.push_back(base);
    out.known.push_back(is_known ? 1.0F : 0.0F);
    out.last.push_back(last.is_known ? log_of(last.ticks) : kUnknownLog);
  }
  return out;
}

void set_targets(Sequence& sequence, std::span<const Tick> lifespans) {
  require(sequence.size() == lifespans.size(), "one lifespan an event");
  sequence.target.clear();
  for (const Tick t : lifespans) sequence.target.push_back(log_of(t));
}

Sequence without_history(const Sequence& sequence) {
  Sequence out = sequence;
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::fill_n(out.numbers.data() + i * kNumbers + kEventNumbers, kHistoryNumbers, 0.0F);
  }
  std::ranges::fill(out.base, kUnknownLog);
  std::ranges::fill(out.known, 0.0F);
  return out;
}

}  // namespace neap
