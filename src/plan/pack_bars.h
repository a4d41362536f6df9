// Blocks as bars over sections. A section is a moment at which a maximal set of blocks is alive; two blocks meet in
// time if and only if they share a section, so nothing else of the time axis matters for packing.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "plan/pack.h"

namespace neap {

struct Bar {
  std::uint32_t first = 0;  // sections [first, last)
  std::uint32_t last = 0;
  std::int64_t size = 0;
  std::int64_t life = 0;  // in ticks
};

struct Bars {
  std::vector<Bar> bars;
  std::uint32_t sections = 0;

  // Bars times the sections that each covers.
  std::int64_t cells() const;
};

Bars to_bars(std::span<const PackItem> items);
std::int64_t max_live(const Bars& bars);

// A set of bars that meet no bar of another group in time.
using Group = std::vector<std::uint32_t>;
std::vector<Group> independent_groups(const Bars& bars);

// The bars of `group` alone, with sections that only they need.
Bars select(const Bars& bars, const Group& group);

// Work that may still be done.
class Meter {
 public:
  Meter(std::int64_t steps, std::function<bool()> is_over) : left_(steps), is_over_(std::move(is_over)) {}
  // A meter for at most `steps` of `parent`'s.
  Meter(Meter& parent, std::int64_t steps) : left_(steps), parent_(&parent) {}

  bool is_spent() const { return left_ <= 0 || (parent_ != nullptr && parent_->is_spent()); }
  std::int64_t left() const { return left_; }
  // False when nothing is left.
  bool spend(std::int64_t steps);

 private:
  static constexpr std::int64_t kBetweenLooks = 1'000'000;  // about a millisecond
  std::int64_t left_;
  std::int64_t since_look_ = 0;
  Meter* parent_ = nullptr;
  std::function<bool()> is_over_;
};

}  // namespace neap
