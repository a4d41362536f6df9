// Chooses and makes evictions in a sequence: a tensor that lies idle at a slot leaves, and its op runs again right
// before the next read, with whatever else that needs.
#pragma once

#include <optional>
#include <vector>

#include "remat/sequence.h"

namespace neap::remat {

class Evictor {
 public:
  Evictor(const Problem& problem, const Uses& uses);

  // One eviction that lowers the bytes at `slot`, which are `excess` too many, for at most `most_ms` more time; false:
  // there is none, and nothing has changed. `noise` in [0, 1]: how far chance decides.
  bool evict_at(Sequence& sequence, Slot slot, std::int64_t excess, std::int64_t budget, double most_ms, double noise);
  void set_seed(std::uint64_t seed) { state_ = seed * 2 + 1; }
  double uniform();  // [0, 1)
  std::int64_t work() const { return work_; }
  bool lacked_slots() const { return lacked_slots_; }
  void clear_lack() { lacked_slots_ = false; }

 private:
  struct Candidate {
    TensorIndex tensor;
    Slot reader;
    double score;
  };
  void find_candidates(const Sequence& sequence, Slot slot, std::int64_t excess, double most_ms, double noise);
  bool try_best(Sequence& sequence, Slot slot, std::int64_t budget, double most_ms);
  // The runs that bring t back just before `reader`, in order; empty: cannot be done.
  bool plan(const Sequence& sequence, TensorIndex t, Slot slot, Slot reader, double most_ms, double& ms,
            std::int64_t& bytes);
  bool apply(Sequence& sequence, Slot reader);

  const Problem& p_;
  std::vector<TensorIndex> evictable_;  // with bytes, of ops that may run again
  std::vector<Candidate> candidates_;
  std::vector<OpIndex> planned_;
  std::vector<std::uint32_t> mark_;  // per op
  std::uint32_t stamp_ = 0;
  std::vector<TensorIndex> stack_;
  std::uint64_t state_ = 1;
  std::int64_t work_ = 0;
  bool lacked_slots_ = false;
  bool is_deep_ = false;  // what is absent at the reader is made again, rather than kept for longer
};

}  // namespace neap::remat
