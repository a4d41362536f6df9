#include "remat/walk.h"

#include <algorithm>
#include <cmath>

#include "remat/neighbourhood.h"

namespace neap::remat {
namespace {

constexpr std::uint32_t kNowhere = UINT32_MAX;
constexpr std::size_t kMostFrames = 200;
constexpr std::size_t kMostLooked = 150;  // tensors around one, when its cost is estimated

struct State {
  bool is_resident = false;
  bool is_lost = false;  // gone for good: nothing that is still needed depends on it
  bool is_held = false;  // no more reads, but what was evicted can only be made from it
  bool is_stale = true;  // its cost must be added up anew
  std::uint32_t pins = 0;
  std::uint32_t pending = 0;       // reads by runs that are about to happen
  std::uint32_t next = 0;          // index of the next use
  std::uint32_t place = kNowhere;  // among the resident
  double cost = 0;
  double touched = 0;  // DTR's clock
};

class Walker {
 public:
  Walker(const Problem& problem, const Uses& uses, std::int64_t budget, const WalkRules& rules)
      : p_(problem),
        uses_(uses),
        budget_(budget),
        rules_(rules),
        state_(problem.tensors.size()),
        weight_(problem.tensors.size()),
        mark_(problem.ops.size()),
        live_(uses.input_bytes()) {
    if (rules.is_dtr) neighbours_.emplace(problem, uses);
    for (std::size_t t = 0; t < p_.tensors.size(); ++t) {
      weight_[t] = static_cast<double>(p_.tensors[t].bytes);
      if (p_.tensors[t].op == kNoOp) state_[t].is_resident = true;
    }
  }

  std::optional<std::vector<Step>> run() {
    for (now_ = 0; now_ < p_.ops.size(); ++now_) {
      pin(now_);
      if (!prepare(now_) || !drain() || !execute(now_, true)) return std::nullopt;
      release_held();
    }
    // What is to be kept and was evicted comes back at the end, one after the other.
    for (const TensorIndex t : p_.keep) ++state_[t].pins;
    for (const TensorIndex t : p_.keep) {
      if (!state_[t].is_resident && (!prepare_tensor(t) || !drain())) return std::nullopt;
    }
    for (const TensorIndex t : std::vector<TensorIndex>(resident_)) {
      if (!has_future(t)) drop(t);
    }
    return std::move(steps_);
  }

 private:
  struct Frame {
    std::vector<OpIndex> ops;
    std::size_t at = 0;
    bool is_pinned = false;  // the op at `at`
  };

  bool has_future(TensorIndex t) const { return state_[t].pending > 0 || state_[t].next < uses_.of(t).size(); }

  void pin(OpIndex op) {
    for (const TensorIndex t : p_.ops[op].inputs) ++state_[t].pins;
  }
  void unpin(OpIndex op) {
    for (const TensorIndex t : p_.ops[op].inputs) --state_[t].pins;
  }

  // Pushes the runs that bring back what the op reads; false: cannot be done.
  bool prepare(OpIndex op) {
    stack_.clear();
    for (const TensorIndex t : p_.ops[op].inputs) {
      if (!state_[t].is_resident) stack_.push_back(t);
    }
    return push_frame();
  }
  bool prepare_tensor(TensorIndex t) {
    stack_.assign(1, t);
    return push_frame();
  }

  bool push_frame() {
    if (stack_.empty()) return true;
    if (frames_.size() >= kMostFrames) return false;
    Frame frame;
    ++stamp_;
    while (!stack_.empty()) {
      const TensorIndex t = stack_.back();
      stack_.pop_back();
      const OpIndex op = p_.tensors[t].op;
      if (mark_[op] == stamp_) continue;
      mark_[op] = stamp_;
      if (!p_.ops[op].recompute || state_[t].is_lost) return false;
      frame.ops.push_back(op);
      for (const TensorIndex in : p_.ops[op].inputs) {
        if (!state_[in].is_resident) stack_.push_back(in);
      }
    }
    std::sort(frame.ops.begin(), frame.ops.end());
    for (const OpIndex op : frame.ops) {
      for (const TensorIndex in : p_.ops[op].inputs) ++state_[in].pending;
    }
    frames_.push_back(std::move(frame));
    return true;
  }

  bool drain() {
    while (!frames_.empty()) {
      Frame& frame = frames_.back();
      if (frame.at == frame.ops.size()) {
        frames_.pop_back();
        continue;
      }
      const OpIndex op = frame.ops[frame.at];
      if (!frame.is_pinned) pin(op);
      frame.is_pinned = true;
      const std::size_t depth = frames_.size();
      if (!prepare(op)) return false;
      if (frames_.size() > depth) continue;  // first what it reads
      if (!execute(op, false)) return false;
      frames_.back().is_pinned = false;
      ++frames_.back().at;
    }
    return true;
  }

  bool execute(OpIndex index, bool is_first) {
    const Op& op = p_.ops[index];
    if (steps_.size() > 4 * rules_.most_runs || ++runs_ > rules_.most_runs || (ms_ += op.ms) > rules_.most_ms) {
      return false;
    }
    if (rules_.is_over != nullptr && runs_ % 256 == 0 && (*rules_.is_over)()) return false;
    std::int64_t wanted = op.workspace;
    for (const TensorIndex t : op.outputs) {
      ++state_[t].pins;
      if (!state_[t].is_resident) wanted += p_.tensors[t].bytes;
    }
    if (!make_room(wanted)) return false;
    steps_.push_back({StepKind::kRun, index});
    for (const TensorIndex t : op.outputs) {
      --state_[t].pins;
      if (!state_[t].is_resident) bring(t);
      state_[t].touched = ms_;
    }
    unpin(index);
    for (const TensorIndex t : op.inputs) {
      state_[t].touched = ms_;
      if (is_first) {
        ++state_[t].next;
      } else {
        --state_[t].pending;
      }
    }
    for (const TensorIndex t : op.inputs) free_if_dead(t);
    for (const TensorIndex t : op.outputs) free_if_dead(t);
    return true;
  }

  void bring(TensorIndex t) {
    State& s = state_[t];
    s.is_resident = true;
    s.is_stale = true;
    s.place = static_cast<std::uint32_t>(resident_.size());
    resident_.push_back(t);
    live_ += p_.tensors[t].bytes;
    if (neighbours_) {
      neighbours_->came_back(t);
    } else {
      touch_descendants(t);
    }
  }

  void drop(TensorIndex t) {
    State& s = state_[t];
    steps_.push_back({StepKind::kFree, t});
    s.is_resident = false;
    resident_[s.place] = resident_.back();
    state_[resident_.back()].place = s.place;
    resident_.pop_back();
    live_ -= p_.tensors[t].bytes;
    if (neighbours_) {
      neighbours_->went(t);
    } else {
      touch_descendants(t);
    }
  }

  void free_if_dead(TensorIndex t) {
    const State& s = state_[t];
    if (!s.is_resident || p_.tensors[t].op == kNoOp || s.pins > 0 || s.is_held || has_future(t)) return;
    if (!is_root(t)) {
      drop(t);
    } else if (is_worth_holding(t)) {
      state_[t].is_held = true;
      held_.push_back(t);
    } else {
      lose(t);
    }
  }

  // Cannot be made again.
  bool is_root(TensorIndex t) const {
    const Op& op = p_.ops[p_.tensors[t].op];
    if (!op.recompute) return true;
    return std::any_of(op.inputs.begin(), op.inputs.end(), [&](TensorIndex in) { return state_[in].is_lost; });
  }

  // Calls f(tensor) for the tensors that are made from t, directly or by way of tensors that are not resident.
  template <class F>
  void for_descendants(TensorIndex t, F f) {
    ++stamp_;
    below_.assign(1, t);
    while (!below_.empty()) {
      const TensorIndex from = below_.back();
      below_.pop_back();
      for (const OpIndex op : uses_.of(from)) {
        if (op > now_ || op == p_.ops.size()) break;
        if (mark_[op] == stamp_) continue;
        mark_[op] = stamp_;
        for (const TensorIndex out : p_.ops[op].outputs) {
          if (!f(out)) return;
          if (!state_[out].is_resident && !state_[out].is_lost) below_.push_back(out);
        }
      }
    }
  }

  // A root without reads of its own still serves when something absent needs it, or when it is smaller than what it
  // allows to evict.
  bool is_worth_holding(TensorIndex t) {
    bool is_needed = false;
    std::int64_t allows = 0;
    for_descendants(t, [&](TensorIndex out) {
      if (!has_future(out)) return true;
      is_needed = is_needed || (!state_[out].is_resident && !state_[out].is_lost);
      if (state_[out].is_resident && p_.ops[p_.tensors[out].op].recompute) allows += p_.tensors[out].bytes;
      return !is_needed;
    });
    return is_needed || allows > p_.tensors[t].bytes;
  }

  void lose(TensorIndex t) {
    drop(t);
    state_[t].is_lost = true;
    std::vector<TensorIndex> lost;
    for_descendants(t, [&](TensorIndex out) {
      if (!state_[out].is_resident) lost.push_back(out);
      return true;
    });
    for (const TensorIndex out : lost) state_[out].is_lost = true;
  }

  void release_held() {
    std::size_t kept = 0;
    for (const TensorIndex t : held_) {
      if (has_future(t) || is_worth_holding(t)) {
        held_[kept++] = t;
        continue;
      }
      state_[t].is_held = false;
      lose(t);
    }
    held_.resize(kept);
  }

  void touch_descendants(TensorIndex t) {
    std::size_t left = kMostLooked;
    for_descendants(t, [&](TensorIndex out) {
      state_[out].is_stale = true;
      return --left > 0;
    });
  }

  // The op itself and what of its ancestors is absent now.
  double closure_cost(TensorIndex t) {
    const OpIndex own = p_.tensors[t].op;
    double cost = p_.ops[own].ms;
    ++stamp_;
    mark_[own] = stamp_;
    stack_.clear();
    for (const TensorIndex in : p_.ops[own].inputs) {
      if (!state_[in].is_resident) stack_.push_back(in);
    }
    for (std::size_t looked = 0; !stack_.empty() && looked < kMostLooked; ++looked) {
      const TensorIndex at = stack_.back();
      stack_.pop_back();
      const OpIndex op = p_.tensors[at].op;
      if (mark_[op] == stamp_) continue;
      mark_[op] = stamp_;
      cost += p_.ops[op].ms * (has_future(at) ? rules_.used_ancestors : rules_.dead_ancestors);
      for (const TensorIndex in : p_.ops[op].inputs) {
        if (!state_[in].is_resident) stack_.push_back(in);
      }
    }
    return cost;
  }

  double score(TensorIndex t) {
    State& s = state_[t];
    if (neighbours_) {
      return neighbours_->cost(t) / (weight_[t] * std::max(ms_ - s.touched, 1e-6));
    }
    if (s.is_stale) {
      s.cost = closure_cost(t);
      s.is_stale = false;
    }
    if (s.next >= uses_.of(t).size()) return s.cost / weight_[t] * 1e-9;  // read by pending runs only
    const double wait = static_cast<double>(uses_.of(t)[s.next] - now_);
    return s.cost / (weight_[t] * (rules_.is_wait_rooted ? std::sqrt(wait) : wait));
  }

  bool make_room(std::int64_t wanted) {
    while (live_ + wanted > budget_) {
      std::uint32_t best = kNowhere;
      bool best_is_pending = true;
      double best_score = 0;
      for (const TensorIndex t : resident_) {
        const State& s = state_[t];
        if (s.pins > 0 || s.is_held || p_.tensors[t].bytes == 0) continue;
        const bool is_pending = s.pending > 0;
        if (is_pending && !best_is_pending) continue;
        const double value = score(t);
        if (best != kNowhere && is_pending == best_is_pending && value >= best_score) continue;
        if (is_root(t)) continue;
        best = t;
        best_score = value;
        best_is_pending = is_pending;
      }
      if (best == kNowhere) return false;
      drop(best);
    }
    return true;
  }

  const Problem& p_;
  const Uses& uses_;
  std::int64_t budget_;
  const WalkRules& rules_;
  std::vector<State> state_;
  std::vector<double> weight_;
  std::vector<std::uint32_t> mark_;  // per op: the last search that came by
  std::uint32_t stamp_ = 0;
  std::vector<TensorIndex> stack_;
  std::vector<TensorIndex> below_;
  std::vector<TensorIndex> resident_;  // inputs apart
  std::vector<TensorIndex> held_;
  std::vector<Frame> frames_;
  std::optional<Neighbourhood> neighbours_;
  std::vector<Step> steps_;
  std::int64_t live_;
  OpIndex now_ = 0;
  double ms_ = 0;
  std::size_t runs_ = 0;
};

}  // namespace

std::optional<std::vector<Step>> walk(const Problem& problem, const Uses& uses, std::int64_t budget,
                                      const WalkRules& rules) {
  return Walker(problem, uses, budget, rules).run();
}

}  // namespace neap::remat
