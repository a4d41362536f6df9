#include "policy/search.h"

#include <algorithm>
#include <queue>

#include "core/bytes.h"

namespace neap {
namespace {

constexpr std::int64_t kWorthwhile = 4 * kKiB;

// Bytes over the budget, summed over the step, that go for a millisecond.
double score(const Candidate& from, const Candidate& to) {
  constexpr double kLeastMs = 1e-3;
  const auto freed = static_cast<double>(from.footprint.excess - to.footprint.excess);
  const double ms = std::max(to.footprint.ms - from.footprint.ms, 0.0) + kLeastMs;
  return freed > 0 ? freed / ms : freed * ms;
}

}  // namespace

Search::Search(const Recompute& r, std::span<const Layer> layers, std::int64_t work)
    : r_(r), layer_begins_(r.ends), work_left_(work) {
  for (const Layer& layer : layers) {
    const Position begin = backward_begins(r, {&layer, 1});
    for (const NodeId node : layer.nodes) {
      for (const TensorId id : r.problem.graph.at(node).outputs) layer_begins_[r.first_wait(id)] = begin;
    }
  }
}

Candidate Search::judge(Retention retention, std::int64_t budget) {
  Decisions decisions = decisions_of(r_, retention);
  work_left_ -= static_cast<std::int64_t>(decisions.order.size());
  const PlanningProblem& p = r_.problem;
  return {std::move(retention), footprint(p.graph, r_.views, p.costs, decisions, budget)};
}

// Stays; made again with its layer; made again just before its use.
Position Search::dropped_further(Wait wait, Position now) const {
  return now < layer_begins_[wait] ? layer_begins_[wait] : r_.ends[wait];
}

// What can still be dropped, or dropped more thoroughly.
std::vector<Search::Move> Search::drops(const Retention& retention) const {
  std::vector<Move> out;
  for (Wait w = 0; w < retention.size(); ++w) {
    const TensorId id = r_.waiting[w];
    if (!r_.is_forward[id.index] || r_.bytes_of(id) < kWorthwhile || retention[w] >= r_.ends[w]) continue;
    out.push_back({.wait = w, .to = dropped_further(w, retention[w])});
  }
  return out;
}

// Looking at each move once, and at a few of them again.
bool Search::affords(std::size_t moves, const Retention& retention) const {
  const auto calls = static_cast<std::int64_t>(decisions_of(r_, retention).order.size());
  return static_cast<std::int64_t>(moves) * calls < work_left_;
}

// The scores of all moves change with each move, but mostly little: the best by its last score is looked at again, and
// taken if it is still the best.
Candidate Search::drop_until(Candidate from, std::int64_t budget) {
  const auto worse = [](const Move& a, const Move& b) {
    return std::pair(a.score, b.wait) < std::pair(b.score, a.wait);
  };
  std::priority_queue<Move, std::vector<Move>, decltype(worse)> queue(worse);
  const auto tried = [&](const Move& move) {
    Retention next = from.retention;
    next[move.wait] = move.to;
    return judge(std::move(next), budget);
  };
  from = judge(std::move(from.retention), budget);
  const std::vector<Move> moves = drops(from.retention);
  if (!affords(moves.size(), from.retention)) return from;
  for (Move move : moves) {
    move.score = score(from, tried(move));
    queue.push(move);
  }
  while (from.footprint.bytes > budget && !queue.empty() && work_left_ > 0) {
    Move move = queue.top();
    queue.pop();
    Candidate next = tried(move);
    move.score = score(from, next);
    if (move.score <= 0 && (queue.empty() || queue.top().score <= 0)) break;
    if (!queue.empty() && worse(move, queue.top())) {
      queue.push(move);
      continue;
    }
    from = std::move(next);
    if (move.to < r_.ends[move.wait]) {
      move.to = dropped_further(move.wait, move.to);
      move.score = score(from, tried(move));
      queue.push(move);
    }
  }
  return from;
}

Candidate Search::keep_while(Candidate from, std::int64_t budget) {
  struct Gain {
    double ms = 0;
    Move move;
  };
  bool has_changed = true;
  const auto dropped = static_cast<std::size_t>(
      std::count_if(from.retention.begin(), from.retention.end(), [](Position at) { return at != kThrough; }));
  while (has_changed && affords(dropped, from.retention)) {
    has_changed = false;
    std::vector<Gain> gains;
    for (Wait i = 0; i < from.retention.size() && work_left_ > 0; ++i) {
      if (!r_.is_forward[r_.waiting[i].index] || from.retention[i] == kThrough) continue;
      for (const Position to : {kThrough, Position{0}, layer_begins_[i]}) {
        if (to >= from.retention[i]) continue;
        Retention next = from.retention;
        next[i] = to;
        const Candidate kept = judge(std::move(next), budget);
        const double ms = from.footprint.ms - kept.footprint.ms;
        if (kept.footprint.bytes <= budget && ms > 1e-6) gains.push_back({ms, {.wait = i, .to = to}});
      }
    }
    std::stable_sort(gains.begin(), gains.end(), [](const Gain& a, const Gain& b) { return a.ms > b.ms; });
    for (const Gain& gain : gains) {
      if (work_left_ <= 0) break;
      Retention next = from.retention;
      if (next[gain.move.wait] <= gain.move.to) continue;
      next[gain.move.wait] = gain.move.to;
      Candidate kept = judge(std::move(next), budget);
      if (kept.footprint.bytes > budget || kept.footprint.ms >= from.footprint.ms) continue;
      from = std::move(kept);
      has_changed = true;
    }
  }
  return from;
}

}  // namespace neap
