#include "remat/bound.h"

#include <algorithm>
#include <numeric>

#include "remat/cut.h"
#include "remat/sides.h"

namespace neap::remat {
namespace {

constexpr std::int64_t kCutWork = 100'000'000;

class Bounder {
 public:
  Bounder(const Problem& problem, const Uses& uses) : p_(problem), uses_(uses) {}

  // What op k needs however the rest is scheduled, and the least added time for the budget.
  struct AtOp {
    std::int64_t fixed = 0;
    double ms = 0;
    bool fits = true;
  };

  AtOp look(OpIndex k, std::int64_t budget) {
    side_ = sides_of(p_, uses_, k);
    AtOp out{.fixed = uses_.input_bytes() + p_.ops[k].workspace};
    for (const TensorIndex t : p_.ops[k].inputs) {
      if (p_.tensors[t].op != kNoOp) out.fixed += p_.tensors[t].bytes;
    }
    for (const TensorIndex t : p_.ops[k].outputs) out.fixed += p_.tensors[t].bytes;
    used_.clear();
    std::int64_t loose = 0;
    for (OpIndex op = 0; op < k; ++op) {
      if (side_[op] != Side::kBefore) continue;
      std::int64_t bytes = 0;
      for (const TensorIndex t : p_.ops[op].outputs) {
        if (spans(t, k)) bytes += p_.tensors[t].bytes;
      }
      if (!p_.ops[op].recompute) {
        out.fixed += bytes;
      } else if (bytes > 0) {
        used_.push_back({static_cast<double>(bytes), p_.ops[op].ms});
        loose += bytes;
      }
    }
    const std::int64_t excess = out.fixed + loose - budget;
    out.fits = out.fixed <= budget;
    if (excess > 0 && out.fits) out.ms = knapsack(static_cast<double>(excess));
    return out;
  }

 private:
  struct Group {
    double bytes;
    double ms;
  };

  // Made before k, needed after it, and not counted with k itself.
  bool spans(TensorIndex t, OpIndex k) const {
    bool is_needed = false;
    for (const OpIndex reader : uses_.of(t)) {
      if (reader == k) return false;
      is_needed = is_needed || reader == p_.ops.size() || side_[reader] == Side::kAfter;
    }
    return is_needed;
  }

  double knapsack(double excess) {
    std::sort(used_.begin(), used_.end(),
              [](const Group& a, const Group& b) { return a.ms * b.bytes < b.ms * a.bytes; });
    double ms = 0;
    for (const Group& g : used_) {
      const double share = std::min(1.0, excess / g.bytes);
      ms += share * g.ms;
      excess -= g.bytes;
      if (excess <= 0) break;
    }
    return ms;
  }

  const Problem& p_;
  const Uses& uses_;
  std::vector<Side> side_;
  std::vector<Group> used_;
};

// Ops by the bytes that the eager schedule has in use at them, the most first.
std::vector<OpIndex> by_pressure(const Problem& p, const Uses& uses) {
  std::vector<std::int64_t> bytes(p.ops.size());
  std::vector<std::int64_t> change(p.ops.size() + 2);
  for (TensorIndex t = 0; t < p.tensors.size(); ++t) {
    if (p.tensors[t].op == kNoOp) continue;
    change[p.tensors[t].op] += p.tensors[t].bytes;
    change[(uses.of(t).empty() ? p.tensors[t].op : uses.of(t).back()) + 1] -= p.tensors[t].bytes;
  }
  std::int64_t live = 0;
  for (std::size_t i = 0; i < p.ops.size(); ++i) {
    live += change[i];
    bytes[i] = live + p.ops[i].workspace;
  }
  std::vector<OpIndex> order(p.ops.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](OpIndex a, OpIndex b) { return bytes[a] > bytes[b]; });
  return order;
}

}  // namespace

Bound lower_bound(const Problem& problem, const Uses& uses, std::int64_t budget, std::int64_t work, int prices) {
  Bound out{.ms = baseline_ms(problem), .bytes = uses.input_bytes()};
  Bounder bounder(problem, uses);
  double added = 0;
  std::int64_t each = static_cast<std::int64_t>(problem.ops.size() + problem.tensors.size()) * 2;
  for (const OpIndex k : by_pressure(problem, uses)) {
    if ((work -= each) < 0) break;
    const Bounder::AtOp at = bounder.look(k, budget);
    added = std::max(added, at.ms);
    if (at.fixed > out.bytes) {
      out.bytes = at.fixed;
      out.bytes_at = k;
    }
  }
  if (out.bytes > budget || problem.ops.empty()) {
    out.ms += added;
    return out;
  }
  if (prices > 0) {
    out.turn = by_pressure(problem, uses).front();
    CutBound cut = cut_bound(problem, uses, out.turn, budget, prices, kCutWork);
    added = std::max(added, cut.ms);
    out.is_resident = std::move(cut.is_resident);
  }
  out.ms += added;
  return out;
}

}  // namespace neap::remat
