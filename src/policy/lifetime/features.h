// Allocation events as the numbers that the network reads, and what it has to say about each.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policy/lifetime/history.h"

namespace neap {

// Numbers of an event: what it is and where in the step, then what is known of its site.
inline constexpr std::size_t kSizeMarks = 19;
inline constexpr std::size_t kEventNumbers = 12 + kSizeMarks;
inline constexpr std::size_t kHistoryNumbers = 11;
inline constexpr std::size_t kNumbers = kEventNumbers + kHistoryNumbers;
// Rows of the tables in which op, layer and site are looked up by their hash.
inline constexpr std::int32_t kOpRows = 64;
inline constexpr std::int32_t kLayerRows = 128;
inline constexpr std::int32_t kSiteRows = 512;

// ln(ticks) of an event of which nothing is known: where the network starts from.
inline constexpr float kUnknownLog = 2;

// One step. The network says what it makes of the event, and how far to trust the best guess from the history of the
// site, if there is one: answer = said + known * trust * (base - said), with trust in (0, 1).
struct Sequence {
  std::vector<float> numbers;  // kNumbers an event
  std::vector<std::int32_t> op, layer, site;
  std::vector<float> base;    // ln(ticks)
  std::vector<float> known;   // 0 or 1: base is a guess from the history
  std::vector<float> last;    // ln(ticks) of the last value at this turn of the site
  std::vector<float> target;  // ln(lifespan), when it is known

  std::size_t size() const { return base.size(); }
  std::int64_t bytes() const;
};

// `history` null: as though no site had been seen.
Sequence sequence_of(std::span<const AllocationEvent> step, const SiteHistory* history);
void set_targets(Sequence& sequence, std::span<const Tick> lifespans);

// The same step as though no site had been seen.
Sequence without_history(const Sequence& sequence);

}  // namespace neap
