#include "remat/evictor.h"

#include <algorithm>
#include <cmath>

namespace neap::remat {
namespace {

constexpr std::size_t kMostPlanned = 64;  // runs that one eviction may add
constexpr double kDeep = 0.15;            // share of noisy evictions that make everything absent again
constexpr std::size_t kMostTried = 6;     // candidates of the best score

}  // namespace

Evictor::Evictor(const Problem& problem, const Uses& uses) : p_(problem), mark_(problem.ops.size()) {
  for (TensorIndex t = 0; t < p_.tensors.size(); ++t) {
    const Tensor& tensor = p_.tensors[t];
    if (tensor.op == kNoOp || tensor.bytes == 0 || !p_.ops[tensor.op].recompute || uses.of(t).empty()) continue;
    evictable_.push_back(t);
  }
}

double Evictor::uniform() {
  state_ += 0x9E3779B97F4A7C15ULL;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
  z ^= z >> 31U;
  return static_cast<double>(z >> 11U) * 0x1p-53;
}

bool Evictor::plan(const Sequence& sequence, TensorIndex t, Slot slot, Slot reader, double most_ms, double& ms,
                   std::int64_t& bytes) {
  planned_.clear();
  ++stamp_;
  stack_.assign(1, t);
  ms = 0;
  bytes = p_.tensors[t].bytes;
  while (!stack_.empty()) {
    const OpIndex op = p_.tensors[stack_.back()].op;
    stack_.pop_back();
    if (mark_[op] == stamp_) continue;
    mark_[op] = stamp_;
    if (!p_.ops[op].recompute) return false;
    planned_.push_back(op);
    ms += p_.ops[op].ms;
    if (ms > most_ms || planned_.size() > kMostPlanned) return false;
    work_ += static_cast<std::int64_t>(p_.ops[op].inputs.size());
    for (const TensorIndex in : p_.ops[op].inputs) {
      if (p_.tensors[in].op == kNoOp) continue;
      const std::vector<Sequence::Event>& list = sequence.events(in);
      const std::size_t at = sequence.event_from(in, reader);
      if (at < list.size() && !list[at].is_make) continue;  // resident then
      const Slot end = list[at - 1].slot;
      if (end >= slot && !is_deep_) continue;  // a longer stay, but not over the slot
      // Either it is made again too, or it stays over the slot as well.
      const bool may_stay = !p_.ops[p_.tensors[in].op].recompute || p_.tensors[in].bytes * 8 <= p_.tensors[t].bytes;
      if (may_stay) {
        bytes -= p_.tensors[in].bytes;
        if (bytes <= 0) return false;
      } else {
        stack_.push_back(in);
      }
    }
  }
  return true;
}

bool Evictor::apply(Sequence& sequence, Slot reader) {
  std::sort(planned_.begin(), planned_.end());
  Slot at = reader;
  for (std::size_t i = 0; i < planned_.size(); ++i) {
    if (at == 0 || sequence.op_at(at - 1) != kNoOp) {
      lacked_slots_ = true;
      return false;
    }
    --at;
  }
  for (const OpIndex op : planned_) sequence.add_run(op, at++);
  return true;
}

bool Evictor::evict_at(Sequence& sequence, Slot slot, std::int64_t excess, std::int64_t budget, double most_ms,
                       double noise) {
  is_deep_ = noise > 0 && uniform() < kDeep;
  find_candidates(sequence, slot, excess, most_ms, noise);
  if (try_best(sequence, slot, budget, most_ms)) return true;
  if (noise > 0) return false;
  is_deep_ = true;
  find_candidates(sequence, slot, excess, most_ms, noise);
  return try_best(sequence, slot, budget, most_ms);
}

void Evictor::find_candidates(const Sequence& sequence, Slot slot, std::int64_t excess, double most_ms, double noise) {
  candidates_.clear();
  work_ += static_cast<std::int64_t>(evictable_.size());
  for (const TensorIndex t : evictable_) {
    const double own = p_.ops[p_.tensors[t].op].ms;
    if (own > most_ms) continue;
    const std::vector<Sequence::Event>& list = sequence.events(t);
    if (list.front().slot >= slot || list.back().slot <= slot) continue;
    const std::size_t at = sequence.event_from(t, slot);
    if (list[at].slot == slot || list[at].is_make) continue;  // in use, or not there
    double ms = 0;
    std::int64_t bytes = 0;
    if (!plan(sequence, t, slot, list[at].slot, most_ms, ms, bytes)) continue;
    const double useful = static_cast<double>(std::min(bytes, excess)) + 0.05 * static_cast<double>(bytes);
    const double luck = noise > 0 ? std::exp(noise * (uniform() - 0.5) * 4) : 1;
    candidates_.push_back({t, list[at].slot, ms / useful * luck});
  }
}

bool Evictor::try_best(Sequence& sequence, Slot slot, std::int64_t budget, double most_ms) {
  const std::size_t tried = std::min(kMostTried, candidates_.size());
  std::partial_sort(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(tried), candidates_.end(),
                    [](const Candidate& a, const Candidate& b) { return a.score < b.score; });
  const std::int64_t before = sequence.bytes_at(slot);
  for (std::size_t i = 0; i < tried; ++i) {
    const Candidate& c = candidates_[i];
    double ms = 0;
    std::int64_t bytes = 0;
    plan(sequence, c.tensor, slot, c.reader, most_ms, ms, bytes);
    const std::size_t mark = sequence.mark();
    const std::int64_t peak = std::max(sequence.peak(), budget);
    if (!apply(sequence, c.reader)) continue;
    if (sequence.bytes_at(slot) < before && sequence.peak() <= peak) return true;
    sequence.undo_to(mark);
  }
  return false;
}

}  // namespace neap::remat
