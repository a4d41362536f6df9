#include "remat/segments.h"

#include <algorithm>
#include <cmath>

#include "remat/sequence.h"

namespace neap::remat {
namespace {

// Appends the runs that bring `wanted` back, in program order.
class Recaller {
 public:
  Recaller(const Problem& problem, std::vector<bool>& is_absent) : p_(problem), is_absent_(is_absent) {}

  void recall(const std::vector<TensorIndex>& wanted, std::vector<OpIndex>& runs) {
    std::vector<TensorIndex> stack;
    for (const TensorIndex t : wanted) {
      if (is_absent_[t]) stack.push_back(t);
    }
    const auto from = static_cast<std::ptrdiff_t>(runs.size());
    while (!stack.empty()) {
      const TensorIndex t = stack.back();
      stack.pop_back();
      if (!is_absent_[t]) continue;
      const Op& op = p_.ops[p_.tensors[t].op];
      for (const TensorIndex out : op.outputs) is_absent_[out] = false;
      runs.push_back(p_.tensors[t].op);
      for (const TensorIndex in : op.inputs) {
        if (is_absent_[in]) stack.push_back(in);
      }
    }
    std::sort(runs.begin() + from, runs.end());
  }

 private:
  const Problem& p_;
  std::vector<bool>& is_absent_;
};

bool is_idle_over(const Uses& uses, TensorIndex t, OpIndex turn) {
  const auto list = uses.of(t);
  return !list.empty() && list.back() > turn;
}

// Ops after which one tensor carries forward on alone, in forward order.
std::vector<OpIndex> narrow_places(const Problem& p, const Uses& uses, OpIndex turn) {
  std::vector<int> change(p.ops.size() + 2);
  for (TensorIndex t = 0; t < p.tensors.size(); ++t) {
    if (p.tensors[t].op == kNoOp || p.tensors[t].op > turn) continue;
    const auto list = uses.of(t);
    const auto last = std::upper_bound(list.begin(), list.end(), turn);  // reads in forward
    if (last == list.begin()) continue;
    ++change[p.tensors[t].op];
    --change[*(last - 1)];
  }
  std::vector<OpIndex> out;
  int crossing = 0;
  for (OpIndex i = 0; i < turn; ++i) {
    crossing += change[i];
    if (crossing == 1) out.push_back(i);
  }
  return out;
}

// Ends of layers. A layer ends at a narrow place, and has an op that is no slighter than the average: what is cheap
// goes with what it follows. Without narrow places (skips over everything) time alone cuts.
std::vector<OpIndex> layer_ends(const Problem& p, const Uses& uses, OpIndex turn) {
  double forward = 0;
  for (OpIndex i = 0; i <= turn; ++i) forward += p.ops[i].ms;
  const double average = forward / (turn + 1);
  std::vector<OpIndex> places = narrow_places(p, uses, turn);
  const bool has_places = places.size() >= 4;
  std::vector<OpIndex> out;
  double heaviest = 0;
  double sum = 0;
  std::size_t next = 0;
  for (OpIndex i = 0; i < turn; ++i) {
    heaviest = std::max(heaviest, p.ops[i].ms);
    sum += p.ops[i].ms;
    const bool is_place = has_places ? next < places.size() && places[next] == i : sum >= forward / 32;
    if (has_places && is_place) ++next;
    // The next op begins a layer when it is heavy itself.
    if (is_place && heaviest >= average && (!has_places || p.ops[i + 1].ms >= average)) {
      out.push_back(i);
      heaviest = 0;
      sum = 0;
    }
  }
  return out;
}

}  // namespace

std::int64_t peak_of(const Problem& problem, const Uses& uses, const std::vector<OpIndex>& runs) {
  return Sequence(problem, uses, runs, 0).peak();
}

OpIndex turn_of(const Problem& problem, const Uses& uses) {
  std::vector<OpIndex> all(problem.ops.size());
  for (OpIndex i = 0; i < all.size(); ++i) all[i] = i;
  return all.empty() ? 0 : std::min<OpIndex>(Sequence(problem, uses, all, 0).peak_slot(), all.back());
}

bool is_chain(const Problem& problem, const Uses& uses) {
  const OpIndex turn = turn_of(problem, uses);
  return narrow_places(problem, uses, turn).size() * 10 >= std::size_t{turn} * 8;
}

std::vector<OpIndex> runs_with_drops(const Problem& problem, OpIndex turn, const std::vector<bool>& is_dropped) {
  std::vector<bool> is_absent(problem.tensors.size());
  Recaller recaller(problem, is_absent);
  std::vector<OpIndex> runs;
  for (OpIndex i = 0; i < problem.ops.size(); ++i) {
    recaller.recall(problem.ops[i].inputs, runs);
    runs.push_back(i);
    if (i != turn) continue;
    for (TensorIndex t = 0; t < problem.tensors.size(); ++t) {
      if (problem.tensors[t].op > turn || !problem.ops[problem.tensors[t].op].recompute) continue;  // inputs too
      is_absent[t] = is_dropped[t];
    }
  }
  recaller.recall(problem.keep, runs);
  return runs;
}

std::vector<OpIndex> segment_runs(const Problem& problem, const Uses& uses, std::size_t group) {
  if (problem.ops.empty()) return {};
  const OpIndex turn = turn_of(problem, uses);
  std::vector<OpIndex> ends = layer_ends(problem, uses, turn);
  if (group == 0) group = static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(ends.size() + 1))));
  std::vector<std::uint32_t> segment(problem.ops.size());
  std::uint32_t now = 0;
  std::size_t next = 0;
  for (OpIndex i = 0; i < problem.ops.size(); ++i) {
    segment[i] = now;
    if (next < ends.size() && ends[next] == i && ++next % std::max<std::size_t>(group, 1) == 0) ++now;
  }
  std::vector<bool> is_dropped(problem.tensors.size());
  for (TensorIndex t = 0; t < problem.tensors.size(); ++t) {
    const OpIndex op = problem.tensors[t].op;
    if (op > turn) continue;                                             // inputs too
    is_dropped[t] = segment[op] != now || !is_idle_over(uses, t, turn);  // backward reads the last segment at once
    for (const OpIndex reader : uses.of(t)) {
      if (reader <= turn && segment[reader] != segment[op]) is_dropped[t] = false;  // a checkpoint
    }
  }
  return runs_with_drops(problem, turn, is_dropped);
}

std::vector<OpIndex> greedy_runs(const Problem& problem, const Uses& uses, std::int64_t budget) {
  const OpIndex turn = turn_of(problem, uses);
  std::vector<TensorIndex> order;
  std::vector<bool> is_dead(problem.tensors.size());  // behind the turn: what is dropped may have been made from it
  for (TensorIndex t = 0; t < problem.tensors.size(); ++t) {
    const Tensor& tensor = problem.tensors[t];
    is_dead[t] = !is_idle_over(uses, t, turn);
    if (tensor.op > turn || tensor.bytes == 0 || !problem.ops[tensor.op].recompute) continue;
    if (is_idle_over(uses, t, turn)) order.push_back(t);
  }
  std::stable_sort(order.begin(), order.end(), [&](TensorIndex a, TensorIndex b) {
    const auto& ta = problem.tensors[a];
    const auto& tb = problem.tensors[b];
    return problem.ops[ta.op].ms * static_cast<double>(tb.bytes) <
           problem.ops[tb.op].ms * static_cast<double>(ta.bytes);
  });
  const auto with_first = [&](std::size_t count) {
    std::vector<bool> is_dropped = is_dead;
    for (std::size_t i = 0; i < count; ++i) is_dropped[order[i]] = true;
    return runs_with_drops(problem, turn, is_dropped);
  };
  std::vector<OpIndex> best = with_first(0);
  std::int64_t best_peak = peak_of(problem, uses, best);
  const std::size_t looks = std::clamp<std::size_t>(400'000 / (problem.ops.size() + 1), 8, 64);
  const std::size_t stride = std::max<std::size_t>(1, order.size() / looks);
  for (std::size_t count = stride; best_peak > budget && count < order.size() + stride; count += stride) {
    std::vector<OpIndex> runs = with_first(std::min(count, order.size()));
    const std::int64_t peak = peak_of(problem, uses, runs);
    if (peak >= best_peak) continue;
    best = std::move(runs);
    best_peak = peak;
  }
  return best;
}

}  // namespace neap::remat
