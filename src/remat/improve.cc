#include "remat/improve.h"

#include <algorithm>
#include <cmath>

#include "remat/evictor.h"

namespace neap::remat {
namespace {

constexpr std::size_t kBlanks = 5;
constexpr std::size_t kMostRunsEach = 10;

class Search {
 public:
  Search(const Problem& problem, const Uses& uses, const std::vector<OpIndex>& runs, const ImproveOptions& options)
      : p_(problem), uses_(uses), options_(options), evictor_(problem, uses), sequence_(problem, uses, runs, kBlanks) {
    evictor_.set_seed(options.seed);
    best_ = runs;
    best_ms_ = sequence_.ms();
  }

  std::vector<OpIndex> improve() {
    list_again();
    while (!is_over() && !slots_.empty()) {
      temperature_ = kWarm * average_ms_ * std::max(0.0, 1 - progress());
      try_one();
    }
    return best_;
  }

  std::vector<OpIndex> fit() {
    const std::size_t most = kMostRunsEach * p_.ops.size();
    while (sequence_.peak() > options_.budget && sequence_.run_count() < most && !is_over()) {
      const std::int64_t excess = sequence_.peak() - options_.budget;
      if (evictor_.evict_at(sequence_, sequence_.peak_slot(), excess, options_.budget, 1e300, 0)) {
        sequence_.forget_log();
        continue;
      }
      if (!evictor_.lacked_slots()) break;
      spread();
    }
    return sequence_.runs();
  }

 private:
  static constexpr double kWarm = 0.3;
  static constexpr double kNeighbours = 0.2;
  static constexpr double kAllOfOne = 0.1;

  bool is_over() {
    if (evictor_.work() + work_ >= options_.work) return true;
    return options_.is_over && ++asked_ % 16 == 0 && options_.is_over();
  }
  double progress() const { return static_cast<double>(evictor_.work() + work_) / static_cast<double>(options_.work); }

  void spread() {
    sequence_ = Sequence(p_, uses_, sequence_.runs(), kBlanks);
    evictor_.clear_lack();
    work_ += static_cast<std::int64_t>(sequence_.slots());
  }

  // The slots of runs that are not the first of their op.
  void list_again() {
    slots_.clear();
    double sum = 0;
    for (Slot s = 0; s < sequence_.slots(); ++s) {
      const OpIndex op = sequence_.op_at(s);
      if (op == kNoOp || sequence_.is_first_run(op, s)) continue;
      slots_.push_back(s);
      sum += p_.ops[op].ms;
    }
    average_ms_ = slots_.empty() ? 0 : sum / static_cast<double>(slots_.size());
    work_ += static_cast<std::int64_t>(sequence_.slots()) / 8;
    age_ = 0;
  }

  // Takes the run out, and those that served only it.
  void remove_with_servants(Slot slot) {
    const OpIndex op = sequence_.op_at(slot);
    sequence_.remove_run(slot);
    for (const TensorIndex in : p_.ops[op].inputs) {
      if (p_.tensors[in].op == kNoOp) continue;
      const std::size_t at = sequence_.event_from(in, slot);
      const Sequence::Event& before = sequence_.events(in)[at - 1];
      if (!before.is_make || sequence_.is_first_run(p_.tensors[in].op, before.slot)) continue;
      if (sequence_.op_at(before.slot) == p_.tensors[in].op && sequence_.is_useless(before.slot)) {
        remove_with_servants(before.slot);
      }
    }
  }

  bool repair(double most_ms) {
    const double noise = evictor_.uniform();
    while (sequence_.peak() > options_.budget) {
      const double left = most_ms - sequence_.ms();
      if (left <= 0) return false;
      const std::int64_t excess = sequence_.peak() - options_.budget;
      if (!evictor_.evict_at(sequence_, sequence_.peak_slot(), excess, options_.budget, left, noise * noise))
        return false;
    }
    return true;
  }

  bool can_go(Slot slot) const {
    return sequence_.op_at(slot) != kNoOp && !sequence_.is_first_run(sequence_.op_at(slot), slot);
  }

  // Mostly one re-run; now and then a few neighbours, or all of one op.
  void remove_some(std::size_t at) {
    const OpIndex op = sequence_.op_at(slots_[at]);
    const double dice = evictor_.uniform();
    remove_with_servants(slots_[at]);
    if (dice < kNeighbours) {
      const std::size_t end = std::min(slots_.size(), at + 2 + static_cast<std::size_t>(evictor_.uniform() * 5));
      for (std::size_t i = at + 1; i < end; ++i) {
        if (can_go(slots_[i])) remove_with_servants(slots_[i]);
      }
    } else if (dice < kNeighbours + kAllOfOne && !p_.ops[op].outputs.empty()) {
      std::vector<Slot> made;
      for (const Sequence::Event& e : sequence_.events(p_.ops[op].outputs[0])) {
        if (e.is_make) made.push_back(e.slot);
      }
      for (const Slot slot : made) {
        if (can_go(slot)) remove_with_servants(slot);
      }
    }
  }

  void try_one() {
    const auto at = static_cast<std::size_t>(evictor_.uniform() * static_cast<double>(slots_.size()));
    ++age_;
    if (!can_go(slots_[at])) {
      if (age_ > slots_.size() / 4) list_again();
      ++work_;
      return;
    }
    const double before = sequence_.ms();
    sequence_.forget_log();
    remove_some(at);
    work_ += 50;
    const double allowed = before - temperature_ * std::log(std::max(evictor_.uniform(), 1e-12));
    if (!repair(allowed)) {
      sequence_.undo_to(0);
    } else if (sequence_.ms() < best_ms_ * (1 - 1e-12)) {
      best_ms_ = sequence_.ms();
      best_ = sequence_.runs();
    }
    if (evictor_.lacked_slots() && age_ > slots_.size() / 8) {
      spread();
      list_again();
    } else if (age_ > 2 * slots_.size()) {
      list_again();
    }
  }

  const Problem& p_;
  const Uses& uses_;
  const ImproveOptions& options_;
  Evictor evictor_;
  Sequence sequence_;
  std::vector<Slot> slots_;
  std::vector<OpIndex> best_;
  double best_ms_ = 0;
  double average_ms_ = 0;
  double temperature_ = 0;
  std::int64_t work_ = 0;
  std::size_t age_ = 0;
  std::size_t asked_ = 0;
};

}  // namespace

std::vector<OpIndex> improve(const Problem& problem, const Uses& uses, const std::vector<OpIndex>& runs,
                             const ImproveOptions& options) {
  return Search(problem, uses, runs, options).improve();
}

std::vector<OpIndex> evict_until_it_fits(const Problem& problem, const Uses& uses, const std::vector<OpIndex>& runs,
                                         const ImproveOptions& options) {
  return Search(problem, uses, runs, options).fit();
}

}  // namespace neap::remat
