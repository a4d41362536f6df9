// What the search for a packing knows at a node, with undo. See pack_search.h.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "plan/pack_bars.h"

namespace neap {

inline constexpr std::int64_t kSky = std::numeric_limits<std::int64_t>::max();
inline constexpr std::uint32_t kNoBar = UINT32_MAX;

// Bars that meet in time, directly or through others, and the sections that they cover.
struct Component {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  std::vector<std::uint32_t> bars;  // by first section
};

class PackState {
 public:
  PackState(const Bars& bars, std::int64_t capacity);

  const Bar& bar(std::uint32_t i) const { return bars_.bars[i]; }
  std::int64_t floor(std::uint32_t section) const { return floor_[section]; }    // unplaced bars start here or above
  std::int64_t ground(std::uint32_t section) const { return ground_[section]; }  // where the placed bars end
  std::int64_t slack(std::uint32_t section) const { return capacity_ - floor_[section] - unplaced_[section]; }
  std::uint32_t top_bar(std::uint32_t section) const { return top_bar_[section]; }  // placed last; kNoBar
  std::int64_t start(std::uint32_t i) const { return start_[i]; }                   // the highest floor below the bar
  std::int64_t rest(std::uint32_t i) const { return rest_[i]; }                     // the highest ground below the bar
  // Unplaced bars of a section, in no particular but a reproducible order.
  std::span<const std::uint32_t> members(std::uint32_t section) const {
    return {member_.data() + member_begin_[section], alive_[section]};
  }
  std::int64_t work() const { return work_; }  // elementary steps so far
  // Per bar: in how many of the failures it was one of those for which there was no place left.
  const std::vector<std::uint32_t>& blame() const { return blame_; }

  // Both return false when no packing can follow; the state must then be rolled back.
  bool open(const Component& c);                                             // the first look
  bool place(std::uint32_t bar, std::int64_t at, const Component& rest_of);  // `rest_of` is without the bar
  bool raise(std::uint32_t section, std::int64_t floor, const Component& c);

  struct Mark {
    std::size_t changes = 0;
    std::size_t placed = 0;
  };
  Mark mark() const { return {trail_.size(), placed_.size()}; }
  void roll_back(Mark mark);

 private:
  struct Change {
    std::int64_t* slot;
    std::int64_t old;
  };
  void set(std::int64_t& slot, std::int64_t value) {
    trail_.push_back({&slot, slot});
    slot = value;
  }
  void note_dirty(const Bar& b);
  void hide(std::uint32_t bar);
  void unhide(std::uint32_t bar);
  bool settle(const Component& c);
  bool settle_section(std::uint32_t section);
  bool sums_fit(std::uint32_t section);
  bool all_are_blocked(const Component& c);
  bool is_blocked(std::uint32_t bar);

  const Bars& bars_;
  std::int64_t capacity_;
  std::vector<std::int64_t> floor_, ground_, unplaced_;  // per section
  std::vector<std::int64_t> start_, rest_;               // per bar
  std::vector<std::uint32_t> top_bar_;                   // per section
  // Members as a sparse set a section: the first alive_ entries are unplaced. position_ finds a bar's entry.
  std::vector<std::uint32_t> member_, position_, alive_;
  std::vector<std::size_t> member_begin_, position_begin_;
  std::vector<std::uint8_t> dirty_;  // per section: floor and sums may have changed
  std::vector<Change> trail_;
  struct PlacedBar {
    std::uint32_t bar;
    std::vector<std::uint32_t> covered;  // top_bar_ below it
  };
  std::vector<PlacedBar> placed_;
  std::vector<std::pair<std::int64_t, std::int64_t>> sorted_;  // scratch
  std::vector<std::uint32_t> blame_;
  std::int64_t work_ = 0;
};

}  // namespace neap
