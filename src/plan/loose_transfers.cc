#include "plan/loose_transfers.h"

#include <algorithm>
#include <optional>

#include "core/bytes.h"
#include "plan/simulate.h"
#include "plan/transfers.h"

namespace neap {
namespace {

// Ticks are those of the plan as it came until `rebuilt` numbers them anew.
class Loosener {
 public:
  Loosener(Plan plan, const Costs& costs, const Link& link, double lead, std::int64_t budget)
      : plan_(std::move(plan)), link_(link), lead_(lead), budget_(budget), at_(plan_.instructions.size()) {
    double now = 0;
    for (Tick t = 0; t < plan_.instructions.size(); ++t) {
      at_[t] = t;
      clock_.push_back(now);
      now += call_ms(plan_.instructions[t], costs);
    }
    clock_.push_back(now);
  }

  Plan run() {
    delay_waits();
    advance_fetches();
    return rebuilt();
  }

 private:
  const Instruction& in(Tick t) const { return plan_.instructions[t]; }
  Tick end() const { return static_cast<Tick>(plan_.instructions.size()); }
  double transfer_ms(const Instruction& in) const {
    return lead_ * neap::transfer_ms(link_, in.action, plan_.slots[in.slot.index]);
  }

  // As if no call ever waited for the channel.
  void delay_waits() {
    std::vector<double> done(plan_.slots.size());
    double channel_free = 0;
    for (Tick t = 0; t < end(); ++t) {
      if (in(t).action == Action::kSpillBegin || in(t).action == Action::kFetchBegin) {
        channel_free = std::max(channel_free, clock_[t]) + transfer_ms(in(t));
        done[in(t).slot.index] = channel_free;
      }
      if (in(t).action == Action::kSpillWait) delay(t, done[in(t).slot.index]);
    }
  }

  void delay(Tick wait, double done) {
    const std::uint32_t block = in(wait).inputs[0].block.index;
    Block& b = plan_.blocks[block];
    if (b.upper != wait + 1) return;  // its place is not free behind it
    const auto at = static_cast<Tick>(std::ranges::lower_bound(clock_, done) - clock_.begin());
    const Tick latest = std::min({at, next_use(b), next_fetch(in(wait).slot, wait)});
    if (latest <= wait + 1) return;
    at_[wait] = latest;
    b.upper = latest;
  }

  // When anything else comes to lie where the block lies.
  Tick next_use(const Block& b) const {
    Tick out = end();
    for (const Block& other : plan_.blocks) {
      const bool overlaps = other.offset < b.offset + b.bytes && b.offset < other.offset + other.bytes;
      if (overlaps && other.lower >= b.upper) out = std::min(out, other.lower);
    }
    return out;
  }

  Tick next_fetch(SlotId slot, Tick from) const {
    while (from < end() && !(in(from).action == Action::kFetchBegin && in(from).slot == slot)) ++from;
    return from;
  }

  void advance_fetches() {
    const std::vector<Tick> wanted = wanted_begins();
    std::vector<Tick> slot_free(plan_.slots.size());  // behind its last transfer
    Tick last = 0;                                    // where the fetch before begins
    for (Tick t = 0; t < end(); ++t) {
      const Instruction& each = in(t);
      if (each.action == Action::kSpillWait) slot_free[each.slot.index] = at_[t] == t ? t + 1 : at_[t];
      if (each.action == Action::kFetchWait) slot_free[each.slot.index] = t + 1;
      if (each.action != Action::kFetchBegin) continue;
      last = advance(t, std::max({last, slot_free[each.slot.index], wanted[t]}));
    }
  }

  // Per fetch: so early that it is done when it is waited for, and before the next one begins to move.
  std::vector<Tick> wanted_begins() const {
    std::vector<Tick> out(plan_.instructions.size());
    if (lead_ >= kAsEarlyAsItCan) return out;
    std::vector<double> must_end(plan_.slots.size());
    double channel_free = clock_.back();
    for (Tick t = end(); t-- > 0;) {
      if (in(t).action == Action::kFetchWait) must_end[in(t).slot.index] = clock_[t];
      if (in(t).action != Action::kFetchBegin) continue;
      channel_free = std::min(channel_free, must_end[in(t).slot.index]) - transfer_ms(in(t));
      const auto behind = std::ranges::upper_bound(clock_, channel_free) - clock_.begin();
      out[t] = behind == 0 ? 0 : static_cast<Tick>(behind - 1);
    }
    return out;
  }

  // From `first` on, if there is a place; else as early as there is one.
  Tick advance(Tick now, Tick first) {
    Block& block = plan_.blocks[in(now).outputs[0].block.index];
    if (block.lower != now) return now;  // it comes into a place that lives already
    Tick high = now;
    while (first < high) {
      const Tick t = first + (high - first) / 2;
      if (find_place(block, t)) {
        high = t;
      } else {
        first = t + 1;
      }
    }
    if (high == now) return now;
    block.offset = *find_place(block, high);
    block.lower = high;
    at_[now] = high;
    return high;
  }

  // The lowest within the budget that nobody uses from then on until the block ends.
  std::optional<std::int64_t> find_place(const Block& block, Tick from) const {
    std::vector<std::pair<std::int64_t, std::int64_t>> taken;
    for (const Block& other : plan_.blocks) {
      const bool is_there = other.lower < block.upper && from < other.upper && other.bytes > 0;
      if (&other != &block && is_there) taken.emplace_back(other.offset, other.offset + other.bytes);
    }
    std::sort(taken.begin(), taken.end());
    std::int64_t at = align_up(plan_.state_bytes, kPage);  // other plans may have state where this one has none
    for (const auto& [begin, end] : taken) {
      if (begin >= at + block.bytes) break;
      at = std::max(at, align_up(end, kPage));
    }
    return at + block.bytes <= budget_ ? std::optional(at) : std::nullopt;
  }

  // What has moved goes before the instruction at its new tick: spills are waited for before fetches begin there, since
  // those may be given their places.
  Plan rebuilt() {
    struct Move {
      Tick to;
      bool is_fetch;
      Tick from;
      auto operator<=>(const Move&) const = default;
    };
    std::vector<Move> moves;
    for (Tick t = 0; t < end(); ++t) {
      if (at_[t] != t) moves.push_back({at_[t], in(t).action == Action::kFetchBegin, t});
    }
    std::ranges::sort(moves);
    std::vector<Instruction> list;
    std::vector<Tick> first(end() + 1);   // of each instruction, behind what has moved before it
    std::vector<Tick> behind(end() + 1);  // one past it
    auto next = moves.begin();
    std::vector<std::pair<Tick*, Tick>> own;  // ends of lives that moved with a transfer
    for (Tick t = 0; t <= end(); ++t) {
      for (; next != moves.end() && next->to == t; ++next) {
        const Instruction& moved = plan_.instructions[next->from];
        const auto tick = static_cast<Tick>(list.size());
        if (next->is_fetch) {
          own.emplace_back(&plan_.blocks[moved.outputs[0].block.index].lower, tick);
        } else {
          own.emplace_back(&plan_.blocks[moved.inputs[0].block.index].upper, tick + 1);
        }
        list.push_back(moved);
      }
      first[t] = static_cast<Tick>(list.size());
      if (t < end() && at_[t] == t) list.push_back(plan_.instructions[t]);
      behind[t] = static_cast<Tick>(list.size());
    }
    for (Block& b : plan_.blocks) {
      b.lower = b.lower == 0 ? 0 : first[std::min(b.lower, end())];  // 0: the host writes it
      b.upper = std::max(b.upper >= end() ? first.back() : behind[b.upper - 1], b.lower + 1);
    }
    for (const auto& [tick, at] : own) *tick = at;
    plan_.instructions = std::move(list);
    count_bytes();
    return std::move(plan_);
  }

  void count_bytes() {
    std::vector<std::int64_t> change(plan_.instructions.size() + 1);
    plan_.peak_bytes = 0;
    for (const Block& b : plan_.blocks) {
      plan_.peak_bytes = std::max(plan_.peak_bytes, align_up(b.offset + b.bytes, kPage));
      if (b.kind == BlockKind::kState && b.offset < plan_.state_bytes) continue;
      change[b.lower] += b.bytes;
      change[std::min<std::size_t>(b.upper, change.size() - 1)] -= b.bytes;
    }
    std::int64_t live = align_up(plan_.state_bytes, kPage);
    plan_.lower_bound_bytes = live;
    for (const std::int64_t c : change) plan_.lower_bound_bytes = std::max(plan_.lower_bound_bytes, live += c);
  }

  Plan plan_;
  Link link_;
  double lead_;
  std::int64_t budget_;
  std::vector<Tick> at_;       // per instruction: before which one it goes; itself: it stays
  std::vector<double> clock_;  // per instruction: when it starts; one more: the end
};

}  // namespace

Plan with_loose_transfers(Plan plan, const Costs& costs, const Link& link, double lead, std::int64_t budget) {
  if (plan.slots.empty() || !link.is_ahead || plan.peak_bytes > budget) return plan;
  return Loosener(std::move(plan), costs, link, lead, budget).run();
}

}  // namespace neap
