// Allocation events as the numbers that the network reads, and what it has to say about each.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policy/lifetime/history.h"

namespace neap {

// Numbers of an event: what it is and where in the step, then what is known of its site.
inline constexpr std::size_t kEventNumbers = 12;
inline constexpr std::size_t kHistoryNumbers = 11;
inline constexpr std::size_t kNumbers = kEventNumbers + kHistoryNumbers;
// Rows of the tables in which op, layer and site are looked up by their hash, and bytes by half powers of two: what is
// worth keeping, moving or making again changes at a size.
inline constexpr std::int32_t kOpRows = 64;
inline constexpr std::int32_t kLayerRows = 128;
inline constexpr std::int32_t kSiteRows = 512;
inline constexpr std::int32_t kSizeRows = 128;

// ln(ticks) of an event of which nothing is known: where the network starts from.
inline constexpr float kUnknownLog = 2;

// One step. The network says what it makes of the event, and how far to believe the best guess from the history of the
// site, if there is one: answer = said + trust * (base - said), trust = certain + doubted * sigmoid(...). Where nothing
// is known of the site trust is 0; where a guess is proven it is 1 and the guess stands.
struct Sequence {
  std::vector<float> numbers;  // kNumbers an event
  std::vector<std::int32_t> op, layer, site, size_class;
  std::vector<float> base;     // ln(ticks)
  std::vector<float> certain;  // 0 or 1: base is proven
  std::vector<float> doubted;  // 0 or 1: base is known, and not proven
  std::vector<float> last;     // ln(ticks) of the last value at this turn of the site
  std::vector<float> target;   // ln(lifespan), when it is known

  std::size_t size() const { return base.size(); }
  bool is_settled() const;  // nothing is left for the network
  std::int64_t bytes() const;
};

// `history` null: as though no site had been seen.
Sequence sequence_of(std::span<const AllocationEvent> step, const SiteHistory* history);
void set_targets(Sequence& sequence, std::span<const Tick> lifespans);

// The same step as though no site had been seen.
Sequence without_history(const Sequence& sequence);

}  // namespace neap
