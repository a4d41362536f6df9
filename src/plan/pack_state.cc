#include "plan/pack_state.h"

#include <algorithm>
#include <functional>

namespace neap {

PackState::PackState(const Bars& bars, std::int64_t capacity)
    : bars_(bars),
      capacity_(capacity),
      floor_(bars.sections),
      ground_(bars.sections),
      unplaced_(bars.sections),
      start_(bars.bars.size()),
      rest_(bars.bars.size()),
      top_bar_(bars.sections, kNoBar),
      alive_(bars.sections),
      member_begin_(bars.sections + 1),
      dirty_(bars.sections),
      blame_(bars.bars.size()) {
  for (const Bar& b : bars.bars) {
    for (std::uint32_t k = b.first; k < b.last; ++k) ++member_begin_[k + 1];
  }
  for (std::uint32_t k = 0; k < bars.sections; ++k) member_begin_[k + 1] += member_begin_[k];
  member_.resize(member_begin_.back());
  position_.resize(member_begin_.back());
  std::size_t cell = 0;
  for (std::uint32_t i = 0; i < bars.bars.size(); ++i) {
    const Bar& b = bars.bars[i];
    position_begin_.push_back(cell);
    for (std::uint32_t k = b.first; k < b.last; ++k) {
      member_[member_begin_[k] + alive_[k]] = i;
      position_[cell++] = alive_[k]++;
      unplaced_[k] += b.size;
    }
  }
}

void PackState::hide(std::uint32_t bar) {
  const Bar& b = bars_.bars[bar];
  for (std::uint32_t k = b.first; k < b.last; ++k) {
    std::uint32_t* members = member_.data() + member_begin_[k];
    std::uint32_t& mine = position_[position_begin_[bar] + (k - b.first)];
    const std::uint32_t end = --alive_[k];
    const std::uint32_t other = members[end];
    std::uint32_t& others = position_[position_begin_[other] + (k - bars_.bars[other].first)];
    std::swap(members[mine], members[end]);
    std::swap(mine, others);
  }
}

// Entries stay where hide() put them: only their order within the section differs from before, which is why bars must
// be unhidden in reverse.
void PackState::unhide(std::uint32_t bar) {
  const Bar& b = bars_.bars[bar];
  for (std::uint32_t k = b.first; k < b.last; ++k) ++alive_[k];
}

void PackState::roll_back(Mark mark) {
  while (trail_.size() > mark.changes) {
    *trail_.back().slot = trail_.back().old;
    trail_.pop_back();
  }
  while (placed_.size() > mark.placed) {
    const PlacedBar& p = placed_.back();
    unhide(p.bar);
    std::copy(p.covered.begin(), p.covered.end(), top_bar_.begin() + bars_.bars[p.bar].first);
    placed_.pop_back();
  }
}

void PackState::note_dirty(const Bar& b) {
  std::fill(dirty_.begin() + b.first, dirty_.begin() + b.last, 1);
  work_ += b.last - b.first;
}

bool PackState::open(const Component& c) {
  std::fill(dirty_.begin() + c.first, dirty_.begin() + c.last, 1);
  return settle(c);
}

bool PackState::place(std::uint32_t bar, std::int64_t at, const Component& rest_of) {
  const Bar& b = bars_.bars[bar];
  const std::int64_t top = at + b.size;
  placed_.push_back({bar, {top_bar_.begin() + b.first, top_bar_.begin() + b.last}});
  hide(bar);
  for (std::uint32_t k = b.first; k < b.last; ++k) {
    set(floor_[k], top);
    set(ground_[k], top);
    set(unplaced_[k], unplaced_[k] - b.size);
    top_bar_[k] = bar;
  }
  note_dirty(b);
  for (const std::uint32_t i : rest_of.bars) {
    const Bar& o = bars_.bars[i];
    if (o.first >= b.last) break;
    if (o.last <= b.first) continue;
    if (rest_[i] < top) set(rest_[i], top);
    if (start_[i] < top) {
      set(start_[i], top);
      note_dirty(o);
    }
  }
  return settle(rest_of);
}

bool PackState::raise(std::uint32_t section, std::int64_t floor, const Component& c) {
  for (const std::uint32_t i : members(section)) {
    if (start_[i] >= floor) continue;
    set(start_[i], floor);
    note_dirty(bars_.bars[i]);
  }
  return settle(c);
}

// Floors follow from starts, never the other way round: a section's floor is at most the start of each bar in it.
bool PackState::settle(const Component& c) {
  bool fits = true;
  for (std::uint32_t k = c.first; k < c.last; ++k) {
    if (!dirty_[k]) continue;
    dirty_[k] = 0;
    if (fits && !settle_section(k)) {
      fits = false;
      for (const std::uint32_t i : members(k)) ++blame_[i];
    }
  }
  work_ += static_cast<std::int64_t>(c.bars.size()) + (c.last - c.first);
  return fits && all_are_blocked(c);
}

bool PackState::settle_section(std::uint32_t section) {
  const auto bars = members(section);
  if (bars.empty()) return true;
  std::int64_t low = kSky;
  std::int64_t high = 0;
  for (const std::uint32_t i : bars) {
    low = std::min(low, start_[i]);
    high = std::max(high, start_[i]);
  }
  work_ += static_cast<std::int64_t>(bars.size());
  if (low != floor_[section]) set(floor_[section], low);
  if (low + unplaced_[section] > capacity_) return false;
  return high + unplaced_[section] <= capacity_ || sums_fit(section);
}

// For every height h: what starts at h or above must fit between h and the capacity.
bool PackState::sums_fit(std::uint32_t section) {
  sorted_.clear();
  for (const std::uint32_t i : members(section)) sorted_.emplace_back(start_[i], bars_.bars[i].size);
  std::sort(sorted_.begin(), sorted_.end(), std::greater<>());
  work_ += 8 * static_cast<std::int64_t>(sorted_.size());
  std::int64_t sum = 0;
  for (const auto& [start, size] : sorted_) {
    sum += size;
    if (start + sum > capacity_) return false;
  }
  return true;
}

bool PackState::all_are_blocked(const Component& c) {
  return std::all_of(c.bars.begin(), c.bars.end(),
                     [&](std::uint32_t i) { return start_[i] == rest_[i] || is_blocked(i); });
}

// A bar that starts above the ground must do so because of another one: else it could be moved down.
bool PackState::is_blocked(std::uint32_t bar) {
  const Bar& b = bars_.bars[bar];
  const std::int64_t top = rest_[bar] + b.size;
  const std::int64_t others_below = std::min(start_[bar], top);
  work_ += b.last - b.first;
  for (std::uint32_t k = b.first; k < b.last; ++k) {
    if (floor_[k] < others_below) return true;
  }
  if (start_[bar] >= top) return false;
  for (std::uint32_t k = b.first; k < b.last; ++k) {
    for (const std::uint32_t i : members(k)) {
      if (i != bar && start_[i] < top) return true;
    }
    work_ += alive_[k];
  }
  return false;
}

}  // namespace neap
