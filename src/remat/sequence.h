// A schedule as a sequence of runs in slots, some of them empty. The runs alone determine the rest: each tensor is
// resident from each run of its op up to the last read before the next run of it, which is the least that these runs
// allow. Adding and removing a run changes the bytes in use incrementally, and can be undone.
#pragma once

#include <vector>

#include "remat/problem.h"
#include "remat/profile.h"
#include "remat/uses.h"

namespace neap::remat {

using Slot = std::uint32_t;

// The schedule of these runs: each tensor is freed as soon as nothing reads it before it is made again.
std::vector<Step> with_frees(const Problem& problem, const std::vector<OpIndex>& runs);
std::vector<OpIndex> runs_of(const std::vector<Step>& schedule);

class Sequence {
 public:
  // `runs`: ops in the order in which they run. `blanks`: empty slots before each.
  Sequence(const Problem& problem, const Uses& uses, const std::vector<OpIndex>& runs, std::size_t blanks);

  struct Event {
    Slot slot;
    bool is_make;
  };

  std::size_t slots() const { return op_at_.size(); }
  OpIndex op_at(Slot slot) const { return op_at_[slot]; }  // kNoOp: empty
  std::int64_t peak() const { return profile_.max(); }
  Slot peak_slot() const { return static_cast<Slot>(profile_.argmax()); }
  std::int64_t bytes_at(Slot slot) const { return profile_.at(slot); }
  double ms() const { return ms_; }
  std::size_t run_count() const { return run_count_; }

  // Runs and reads of a tensor, by slot. Inputs of the problem have none.
  const std::vector<Event>& events(TensorIndex t) const { return events_[t]; }
  // Index of the first event at or behind the slot.
  std::size_t event_from(TensorIndex t, Slot slot) const;
  bool is_first_run(OpIndex op, Slot slot) const { return first_[op] == slot; }
  // Nothing reads what this run makes.
  bool is_useless(Slot slot) const;

  void add_run(OpIndex op, Slot slot);  // the slot is empty, and each input was made before it
  void remove_run(Slot slot);           // not a first run

  std::size_t mark() const { return log_.size(); }
  void undo_to(std::size_t mark);
  void forget_log() { log_.clear(); }

  std::vector<OpIndex> runs() const;

 private:
  struct Change {
    OpIndex op;
    Slot slot;
    bool was_added;
  };
  void put(OpIndex op, Slot slot);
  void take(Slot slot);

  const Problem* p_;
  std::vector<OpIndex> op_at_;
  std::vector<Slot> first_;  // per op
  std::vector<std::vector<Event>> events_;
  MemoryProfile profile_;
  std::vector<Change> log_;
  double ms_ = 0;
  std::size_t run_count_ = 0;
};

}  // namespace neap::remat
