#include "remat/sequence.h"

#include <algorithm>

namespace neap::remat {
namespace {

std::size_t slots_for(std::size_t runs, std::size_t blanks) { return runs * (blanks + 1) + 1; }

}  // namespace

Sequence::Sequence(const Problem& problem, const Uses& uses, const std::vector<OpIndex>& runs, std::size_t blanks)
    : p_(&problem),
      op_at_(slots_for(runs.size(), blanks), kNoOp),
      first_(problem.ops.size(), UINT32_MAX),
      events_(problem.tensors.size()),
      profile_(op_at_.size()) {
  profile_.add(0, op_at_.size() - 1, uses.input_bytes());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto slot = static_cast<Slot>(i * (blanks + 1) + blanks);
    const Op& op = p_->ops[runs[i]];
    op_at_[slot] = runs[i];
    first_[runs[i]] = std::min(first_[runs[i]], slot);
    ms_ += op.ms;
    profile_.add(slot, slot, op.workspace);
    for (const TensorIndex t : op.inputs) {
      if (p_->tensors[t].op != kNoOp) events_[t].push_back({slot, false});
    }
    for (const TensorIndex t : op.outputs) events_[t].push_back({slot, true});
  }
  run_count_ = runs.size();
  const auto end = static_cast<Slot>(op_at_.size() - 1);
  for (const TensorIndex t : problem.keep) {
    if (p_->tensors[t].op != kNoOp && (events_[t].empty() || events_[t].back().slot != end)) {
      events_[t].push_back({end, false});
    }
  }
  for (std::size_t t = 0; t < events_.size(); ++t) {
    const std::vector<Event>& list = events_[t];
    for (std::size_t i = 0; i < list.size();) {
      std::size_t last = i;
      while (last + 1 < list.size() && !list[last + 1].is_make) ++last;
      profile_.add(list[i].slot, list[last].slot, p_->tensors[t].bytes);
      i = last + 1;
    }
  }
}

std::size_t Sequence::event_from(TensorIndex t, Slot slot) const {
  const std::vector<Event>& list = events_[t];
  return static_cast<std::size_t>(
      std::lower_bound(list.begin(), list.end(), slot, [](const Event& e, Slot s) { return e.slot < s; }) -
      list.begin());
}

bool Sequence::is_useless(Slot slot) const {
  for (const TensorIndex t : p_->ops[op_at_[slot]].outputs) {
    const std::size_t next = event_from(t, slot) + 1;
    if (next < events_[t].size() && !events_[t][next].is_make) return false;
  }
  return true;
}

void Sequence::put(OpIndex index, Slot slot) {
  const Op& op = p_->ops[index];
  op_at_[slot] = index;
  profile_.add(slot, slot, op.workspace);
  for (const TensorIndex t : op.inputs) {
    if (p_->tensors[t].op == kNoOp) continue;
    std::vector<Event>& list = events_[t];
    const std::size_t at = event_from(t, slot);
    const bool is_live = at < list.size() && !list[at].is_make;
    if (!is_live) profile_.add(list[at - 1].slot + 1, slot, p_->tensors[t].bytes);
    list.insert(list.begin() + static_cast<std::ptrdiff_t>(at), {slot, false});
  }
  for (const TensorIndex t : op.outputs) {
    std::vector<Event>& list = events_[t];
    const std::size_t at = event_from(t, slot);
    const bool is_live = at < list.size() && !list[at].is_make;
    if (is_live) {
      profile_.add(list[at - 1].slot + 1, slot - 1, -p_->tensors[t].bytes);
    } else {
      profile_.add(slot, slot, p_->tensors[t].bytes);
    }
    list.insert(list.begin() + static_cast<std::ptrdiff_t>(at), {slot, true});
  }
  ms_ += op.ms;
  ++run_count_;
}

void Sequence::take(Slot slot) {
  const Op& op = p_->ops[op_at_[slot]];
  profile_.add(slot, slot, -op.workspace);
  for (const TensorIndex t : op.outputs) {
    std::vector<Event>& list = events_[t];
    const std::size_t at = event_from(t, slot);
    const bool is_read = at + 1 < list.size() && !list[at + 1].is_make;
    if (is_read) {
      profile_.add(list[at - 1].slot + 1, slot - 1, p_->tensors[t].bytes);
    } else {
      profile_.add(slot, slot, -p_->tensors[t].bytes);
    }
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
  }
  for (const TensorIndex t : op.inputs) {
    if (p_->tensors[t].op == kNoOp) continue;
    std::vector<Event>& list = events_[t];
    const std::size_t at = event_from(t, slot);
    const bool is_live_after = at + 1 < list.size() && !list[at + 1].is_make;
    if (!is_live_after) profile_.add(list[at - 1].slot + 1, slot, -p_->tensors[t].bytes);
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
  }
  op_at_[slot] = kNoOp;
  ms_ -= op.ms;
  --run_count_;
}

void Sequence::add_run(OpIndex op, Slot slot) {
  put(op, slot);
  log_.push_back({op, slot, true});
}

void Sequence::remove_run(Slot slot) {
  log_.push_back({op_at_[slot], slot, false});
  take(slot);
}

void Sequence::undo_to(std::size_t mark) {
  while (log_.size() > mark) {
    const Change c = log_.back();
    log_.pop_back();
    if (c.was_added) {
      take(c.slot);
    } else {
      put(c.op, c.slot);
    }
  }
}

std::vector<OpIndex> Sequence::runs() const {
  std::vector<OpIndex> out;
  out.reserve(run_count_);
  std::copy_if(op_at_.begin(), op_at_.end(), std::back_inserter(out), [](OpIndex op) { return op != kNoOp; });
  return out;
}

std::vector<OpIndex> runs_of(const std::vector<Step>& schedule) {
  std::vector<OpIndex> out;
  for (const Step& step : schedule) {
    if (step.kind == StepKind::kRun) out.push_back(step.index);
  }
  return out;
}

std::vector<Step> with_frees(const Problem& problem, const std::vector<OpIndex>& runs) {
  // Backwards: is the tensor read before it is made again?
  std::vector<bool> is_wanted(problem.tensors.size());
  for (const TensorIndex t : problem.keep) is_wanted[t] = true;
  std::vector<Step> out;
  for (std::size_t i = runs.size(); i > 0; --i) {
    const Op& op = problem.ops[runs[i - 1]];
    for (const TensorIndex t : op.inputs) {
      if (problem.tensors[t].op != kNoOp && !is_wanted[t]) out.push_back({StepKind::kFree, t});
    }
    for (const TensorIndex t : op.outputs) {
      if (!is_wanted[t]) out.push_back({StepKind::kFree, t});
      is_wanted[t] = false;
    }
    for (const TensorIndex t : op.inputs) is_wanted[t] = true;
    out.push_back({StepKind::kRun, runs[i - 1]});
  }
  std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace neap::remat
