#include "pool/slot_places.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <queue>

namespace neap {
namespace {

// Gaps below the end of the file, by offset; no two of them touch.
class Gaps {
 public:
  std::int64_t take(std::int64_t bytes) {
    for (auto at = gaps_.begin(); at != gaps_.end(); ++at) {
      const auto [offset, size] = *at;
      if (size < bytes) continue;
      gaps_.erase(at);
      if (size > bytes) gaps_.emplace(offset + bytes, size - bytes);
      return offset;
    }
    // The last gap may reach the end: the file grows by the rest.
    std::int64_t offset = end_;
    if (!gaps_.empty() && std::prev(gaps_.end())->first + std::prev(gaps_.end())->second == end_) {
      offset = std::prev(gaps_.end())->first;
      gaps_.erase(std::prev(gaps_.end()));
    }
    end_ = offset + bytes;
    return offset;
  }

  void give_back(std::int64_t offset, std::int64_t bytes) {
    auto next = gaps_.lower_bound(offset);
    if (next != gaps_.end() && offset + bytes == next->first) {
      bytes += next->second;
      next = gaps_.erase(next);
    }
    if (next != gaps_.begin() && std::prev(next)->first + std::prev(next)->second == offset) {
      std::prev(next)->second += bytes;
    } else {
      gaps_.emplace(offset, bytes);
    }
  }

  std::int64_t end() const { return end_; }

 private:
  std::map<std::int64_t, std::int64_t> gaps_;
  std::int64_t end_ = 0;
};

}  // namespace

SlotPlaces place_slots(std::span<const std::int64_t> bytes, std::span<const SlotLife> lives) {
  const auto life = [&](std::size_t i) { return i < lives.size() ? lives[i] : SlotLife{}; };
  std::vector<std::size_t> order(bytes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return life(a).begin < life(b).begin; });
  SlotPlaces out{.offsets = std::vector<std::int64_t>(bytes.size())};
  Gaps gaps;
  const auto ends_later = [&](std::size_t a, std::size_t b) { return life(a).end > life(b).end; };
  std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(ends_later)> in_use(ends_later);
  for (const std::size_t slot : order) {
    for (; !in_use.empty() && life(in_use.top()).end < life(slot).begin; in_use.pop()) {
      gaps.give_back(out.offsets[in_use.top()], bytes[in_use.top()]);
    }
    out.offsets[slot] = gaps.take(bytes[slot]);
    in_use.push(slot);
  }
  out.bytes = gaps.end();
  return out;
}

}  // namespace neap
