#include "plan/early_fetches.h"

#include <algorithm>
#include <optional>

#include "core/bytes.h"

namespace neap {
namespace {

// Ticks are those of the plan as it came until `rebuilt` numbers them anew.
class Advancer {
 public:
  Advancer(Plan plan, std::int64_t budget) : plan_(std::move(plan)), budget_(budget) {}

  Plan run() {
    std::vector<Tick> slot_free(plan_.slots.size());  // behind the last wait
    Tick last = 0;                                    // where the fetch before begins
    for (Tick t = 0; t < plan_.instructions.size(); ++t) {
      const Instruction& in = plan_.instructions[t];
      if (in.action == Action::kFetchWait) slot_free[in.slot.index] = t + 1;
      if (in.action != Action::kFetchBegin) continue;
      last = advance(t, std::max(last, slot_free[in.slot.index]));
      begins_.push_back({last, t});
    }
    return rebuilt();
  }

 private:
  struct Begin {
    Tick at;    // before which instruction
    Tick from;  // which instruction it was
  };

  // From `first` on, if there is a place; else as early as there is one.
  Tick advance(Tick now, Tick first) {
    Block& block = plan_.blocks[plan_.instructions[now].outputs[0].block.index];
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

  Plan rebuilt() {
    std::vector<Instruction> list;
    std::vector<Tick> first(plan_.instructions.size() + 1);   // of each instruction, behind fetches that begin there
    std::vector<Tick> behind(plan_.instructions.size() + 1);  // one past it
    auto next = begins_.begin();
    std::vector<std::pair<std::uint32_t, Tick>> lowers;  // of fetched blocks
    for (Tick t = 0; t < plan_.instructions.size(); ++t) {
      for (; next != begins_.end() && next->at == t; ++next) {
        Instruction& fetch = plan_.instructions[next->from];
        lowers.emplace_back(fetch.outputs[0].block.index, static_cast<Tick>(list.size()));
        list.push_back(fetch);
      }
      first[t] = static_cast<Tick>(list.size());
      if (plan_.instructions[t].action != Action::kFetchBegin) list.push_back(std::move(plan_.instructions[t]));
      behind[t] = static_cast<Tick>(list.size());
    }
    first.back() = static_cast<Tick>(list.size());
    for (Block& b : plan_.blocks) {
      b.lower = b.lower == 0 ? 0 : first[std::min<std::size_t>(b.lower, first.size() - 1)];  // 0: the host writes it
      const bool is_to_the_end = b.upper >= first.size() - 1;
      b.upper = std::max(is_to_the_end ? first.back() : behind[b.upper - 1], b.lower + 1);
    }
    for (const auto& [block, lower] : lowers) plan_.blocks[block].lower = lower;
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
  std::int64_t budget_;
  std::vector<Begin> begins_;
};

}  // namespace

Plan with_early_fetches(Plan plan, std::int64_t budget) {
  const bool only_fetches = std::none_of(plan.instructions.begin(), plan.instructions.end(),
                                         [](const Instruction& in) { return in.action == Action::kSpillBegin; });
  if (plan.slots.empty() || !only_fetches) return plan;
  return Advancer(std::move(plan), budget).run();
}

}  // namespace neap
