// Exact search for a packing below a given height, in the manner of MiniMalloc (Moffitt, ASPLOS 2024): bars are placed
// from the bottom up, and only packings are looked at in which no bar could be moved to a lower place.
//
// What is known at a node is one floor a section: bars that are not placed yet start there or above. The search takes a
// valley of these floors, picks a section in it and asks which bar lies lowest in that section. Either one that rests
// on the bottom of the valley (a branch each), or the bottom stays empty and the floor rises to the next height at
// which a bar of this section could rest (one branch). Unlike a choice among all bars, decisions in different valleys
// do not multiply. Pruned is what
//  - has a section in which the bars that start at h or above are together higher than capacity - h, for some h;
//  - leaves free a place into which a bar could be moved down, because all that could block it starts above;
//  - stacks bars of equal sections in another order than that of their priority;
//  - was seen before: the same bars left above the same floors.
// Bars that no longer meet others in time are solved on their own.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/pack_bars.h"

namespace neap {

enum class SearchEnd { kFound, kNoPacking, kLimit };

// Which decisions come first; any of them leads to the same packings in the end.
struct SearchTaste {
  enum class Priority { kSize, kArea, kLife, kSections };
  enum class Place { kFewestLowest, kLowest, kFewestTightest, kForcedLowest };
  Priority priority = Priority::kSize;
  Place place = Place::kFewestTightest;
  double noise = 0;  // priorities are multiplied by up to 1 + noise
  std::uint64_t seed = 0;
  // Where given, bars may lie only at these offsets: is this packing among those that the search looks at?
  const std::vector<std::int64_t>* only = nullptr;
};

// Per bar: a factor to its priority.
using Emphasis = std::vector<double>;

struct SearchResult {
  SearchEnd end = SearchEnd::kLimit;
  std::vector<std::int64_t> offsets;  // of kFound
  std::vector<std::uint32_t> blame;   // per bar: how often it was left over when the search failed
};

// Very roughly what placing all bars costs when no decision is taken back.
std::int64_t dive_steps(const Bars& bars);

// One search with one taste.
SearchResult search_once(const Bars& bars, std::int64_t capacity, const SearchTaste& taste, const Emphasis& emphasis,
                         Meter& meter);

// Searches with many tastes in turn, each for longer and longer, until one ends or the meter is spent.
SearchResult search_packing(const Bars& bars, std::int64_t capacity, Meter& meter);

}  // namespace neap
