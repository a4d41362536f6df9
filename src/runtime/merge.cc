#include "runtime/merge.h"

#include <algorithm>

namespace neap {
namespace {

struct Range {
  const std::byte* first = nullptr;
  std::int64_t bytes = 0;
  std::int64_t element = 0;  // bytes of one

  bool meets(const Range& other) const { return first < other.first + other.bytes && other.first < first + bytes; }
  // Element by element in the same place.
  bool is_over(const Range& other) const {
    return first == other.first && bytes == other.bytes && element == other.element;
  }
};

struct Touched {
  std::vector<Range> reads, writes;
};

Range range_of(const std::byte* at, const TensorType& type) {
  const std::int64_t elements = std::max<std::int64_t>(type.elements(), 1);
  return {at, type.bytes(), type.bytes() / elements};
}

// From output `first` on: those before are not written.
Touched touched_by(const BoundCall& c, std::size_t first = 0) {
  Touched out;
  for (std::size_t i = 0; i < c.call.inputs.size() && i < c.buffers.inputs.size(); ++i) {
    if (!c.call.has(i) || c.buffers.inputs[i] == nullptr) continue;
    const Range range = range_of(c.buffers.inputs[i], c.call.in(i));
    const auto& changed = c.call.op->mutates;
    const bool is_changed = std::find(changed.begin(), changed.end(), i) != changed.end();
    (is_changed ? out.writes : out.reads).push_back(range);
  }
  for (std::size_t i = first; i < c.call.outputs.size() && i < c.buffers.outputs.size(); ++i) {
    if (c.buffers.outputs[i] != nullptr) out.writes.push_back(range_of(c.buffers.outputs[i], c.call.outputs[i]));
  }
  if (c.buffers.workspace != nullptr) out.writes.push_back({c.buffers.workspace, c.workspace_bytes, 0});
  return out;
}

bool any_meet(const std::vector<Range>& a, const std::vector<Range>& b) {
  return std::any_of(a.begin(), a.end(), [&](const Range& x) {
    return std::any_of(b.begin(), b.end(), [&](const Range& y) { return x.meets(y); });
  });
}

bool may_swap(const Touched& a, const Touched& b) {
  return !any_meet(a.writes, b.writes) && !any_meet(a.writes, b.reads) && !any_meet(a.reads, b.writes);
}

// What the later call writes lies apart from what the earlier one uses, or just where that is.
bool may_share(const Touched& earlier, const Touched& later) {
  for (const Range& to : later.writes) {
    for (const auto* used : {&earlier.reads, &earlier.writes}) {
      for (const Range& from : *used) {
        if (to.meets(from) && !to.is_over(from)) return false;
      }
    }
  }
  return true;
}

class Merging {
 public:
  Merging(const std::vector<std::optional<BoundCall>>& calls, std::span<const MergeRule> rules)
      : calls_(calls), rules_(rules), is_taken_(calls.size()), at_(calls.size()) {
    for (const auto& call : calls) touched_.push_back(call ? touched_by(*call) : Touched{});
  }

  std::vector<MergedCalls> run() {
    for (const MergeRule& rule : rules_) {
      for (std::size_t i = 0; i < calls_.size(); ++i) {
        if (calls_[i] && !is_taken_[i] && rule.starts(*calls_[i])) gather(rule, i);
      }
    }
    std::vector<MergedCalls> out;
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      if (!is_taken_[i]) out.push_back({.calls = {i}});
      if (at_[i]) out.push_back(std::move(*at_[i]));
    }
    return out;
  }

 private:
  // What stands between the first of a group and a call that would join it.
  bool may_join(const MergeRule& rule, const std::vector<std::size_t>& group, std::size_t next) const {
    for (std::size_t k = group.front() + 1; k < next; ++k) {
      const bool is_member = std::find(group.begin(), group.end(), k) != group.end();
      if (is_member) continue;
      // Merged calls run in one place: that of another group counts as all of its calls.
      const std::vector<std::size_t> others =
          is_taken_[k] ? at_[k] ? at_[k]->calls : std::vector<std::size_t>{} : std::vector<std::size_t>{k};
      for (const std::size_t other : others) {
        if (rule.at == MergeRule::At::kFirst && !may_swap(touched_[other], touched_[next])) return false;
        if (rule.at == MergeRule::At::kLast && !all_may_swap(group, other, k)) return false;
      }
    }
    return std::all_of(group.begin(), group.end(), [&](std::size_t member) {
      const bool is_elided = rule.elides_first && member == group.front();
      const Touched own = is_elided ? touched_by(*calls_[member], 1) : touched_[member];
      return rule.by_element ? may_share(own, touched_[next]) : may_swap(own, touched_[next]);
    });
  }

  // Calls in front of place k move behind it.
  bool all_may_swap(const std::vector<std::size_t>& group, std::size_t other, std::size_t k) const {
    return std::all_of(group.begin(), group.end(),
                       [&](std::size_t member) { return member > k || may_swap(touched_[member], touched_[other]); });
  }

  void gather(const MergeRule& rule, std::size_t first) {
    std::vector<std::size_t> group = {first};
    std::vector<const BoundCall*> members = {&*calls_[first]};
    std::size_t between = 0;
    for (std::size_t i = first + 1; i < calls_.size() && group.size() < rule.most && between <= rule.reach; ++i) {
      if (!calls_[i]) break;
      if (is_taken_[i]) continue;
      if (rule.takes(members, *calls_[i]) && may_join(rule, group, i)) {
        group.push_back(i);
        members.push_back(&*calls_[i]);
        between = 0;
      } else {
        ++between;
      }
    }
    if (group.size() < 2) return;
    MergedRun run = rule.make(members);
    if (!run) return;
    for (const std::size_t i : group) is_taken_[i] = true;
    const std::size_t place = rule.at == MergeRule::At::kFirst ? group.front() : group.back();
    at_[place] = MergedCalls{std::move(group), std::move(run)};
  }

  const std::vector<std::optional<BoundCall>>& calls_;
  std::span<const MergeRule> rules_;
  std::vector<Touched> touched_;
  std::vector<bool> is_taken_;
  std::vector<std::optional<MergedCalls>> at_;  // what runs in a call's place
};

}  // namespace

std::vector<MergedCalls> merge_calls(const std::vector<std::optional<BoundCall>>& calls,
                                     std::span<const MergeRule> rules) {
  return Merging(calls, rules).run();
}

}  // namespace neap
