#include "remat/exact.h"

#include <algorithm>
#include <queue>
#include <unordered_map>

namespace neap::remat {
namespace {

constexpr std::size_t kMostOps = 24;
constexpr std::size_t kMostTensors = 24;
constexpr std::size_t kMostStates = 60'000;

using Mask = std::uint32_t;

struct SmallOp {
  Mask reads = 0;
  Mask makes = 0;
};

// Dijkstra over the time of re-runs: first runs are all paid for in the end. A state is left by running an op, or by
// freeing a tensor, which costs nothing.
class StateSearch {
 public:
  StateSearch(const Problem& problem, bool in_order) : p_(problem), in_order_(in_order), ops_(problem.ops.size()) {
    std::vector<std::uint32_t> bit(problem.tensors.size());
    for (TensorIndex t = 0; t < problem.tensors.size(); ++t) {
      if (p_.tensors[t].op == kNoOp) {
        room_ -= p_.tensors[t].bytes;
        continue;
      }
      bit[t] = static_cast<std::uint32_t>(bytes_.size());
      bytes_.push_back(p_.tensors[t].bytes);
      ops_[p_.tensors[t].op].makes |= Mask{1} << bit[t];
    }
    room_ += p_.budget;
    for (OpIndex i = 0; i < p_.ops.size(); ++i) {
      for (const TensorIndex t : p_.ops[i].inputs) {
        if (p_.tensors[t].op != kNoOp) ops_[i].reads |= Mask{1} << bit[t];
      }
    }
    for (const TensorIndex t : p_.keep) {
      if (p_.tensors[t].op != kNoOp) keep_ |= Mask{1} << bit[t];
    }
  }

  // Time of re-runs; negative: none found.
  double run() {
    const Mask all = static_cast<Mask>((std::uint64_t{1} << p_.ops.size()) - 1);
    reach({0, 0}, 0, {0, 0}, kNoOp);
    while (!queue_.empty() && known_.size() < kMostStates) {
      const Entry top = queue_.top();
      queue_.pop();
      if (known_.at(key(top.at)).ms < top.ms) continue;
      if (top.at.ran == all && (top.at.resident & keep_) == keep_) {
        trace(top.at);
        return top.ms;
      }
      expand(top.at, top.ms);
    }
    return -1;
  }

  std::vector<OpIndex> runs() const { return runs_; }

 private:
  struct State {
    Mask ran;
    Mask resident;
  };
  struct Entry {
    double ms;
    std::uint64_t order;  // ties: the earlier first
    State at;
    bool operator<(const Entry& other) const { return ms != other.ms ? ms > other.ms : order > other.order; }
  };
  struct Known {
    double ms;
    State from;
    OpIndex op;
  };

  static std::uint64_t key(State s) { return std::uint64_t{s.ran} << 32U | s.resident; }

  std::int64_t bytes_of(Mask mask) const {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      if ((mask >> i & 1U) != 0) sum += bytes_[i];
    }
    return sum;
  }

  void reach(State to, double ms, State from, OpIndex op) {
    const auto [it, is_new] = known_.try_emplace(key(to), Known{ms, from, op});
    if (!is_new && it->second.ms <= ms) return;
    it->second = {ms, from, op};
    queue_.push({ms, pushed_++, to});
  }

  void expand(State s, double ms) {
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      const Mask one = Mask{1} << i;
      if ((s.resident & one) != 0) reach({s.ran, s.resident & ~one}, ms, s, kNoOp);
    }
    bool is_next = true;
    for (OpIndex i = 0; i < ops_.size(); ++i) {
      const bool has_run = (s.ran >> i & 1U) != 0;
      const bool is_allowed = has_run ? p_.ops[i].recompute : !in_order_ || is_next;
      if (!has_run) is_next = false;
      if (!is_allowed || (ops_[i].reads & ~s.resident) != 0) continue;
      const Mask after = s.resident | ops_[i].makes;
      if (bytes_of(after) + p_.ops[i].workspace > room_) continue;
      reach({s.ran | Mask{1} << i, after}, ms + (has_run ? p_.ops[i].ms : 0), s, i);
    }
  }

  void trace(State at) {
    while (key(at) != 0) {
      const Known& k = known_.at(key(at));
      if (k.op != kNoOp) runs_.push_back(k.op);
      at = k.from;
    }
    std::reverse(runs_.begin(), runs_.end());
  }

  const Problem& p_;
  bool in_order_;
  std::vector<SmallOp> ops_;
  std::vector<std::int64_t> bytes_;
  std::int64_t room_ = 0;
  Mask keep_ = 0;
  std::unordered_map<std::uint64_t, Known> known_;
  std::priority_queue<Entry> queue_;
  std::uint64_t pushed_ = 0;
  std::vector<OpIndex> runs_;
};

}  // namespace

std::optional<ExactResult> exact_runs(const Problem& problem) {
  const auto made = static_cast<std::size_t>(
      std::count_if(problem.tensors.begin(), problem.tensors.end(), [](const Tensor& t) { return t.op != kNoOp; }));
  if (problem.ops.size() > kMostOps || made > kMostTensors) return std::nullopt;
  StateSearch in_order(problem, true);
  const double ms = in_order.run();
  if (ms < 0) return std::nullopt;
  StateSearch any(problem, false);
  const double least = any.run();
  return ExactResult{.runs = in_order.runs(), .is_optimal = least >= 0 && ms <= least * (1 + 1e-12)};
}

}  // namespace neap::remat
