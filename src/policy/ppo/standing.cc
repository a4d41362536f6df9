#include "policy/ppo/standing.h"

#include <algorithm>

#include "neap/error.h"

namespace neap::ppo {
namespace {

constexpr double kEqual = 1.005;    // of the best: not worth a switch
constexpr double kReckoned = 1.05;  // what is reckoned to take more is not run
constexpr double kScaled = 1.15;    // the same for what was measured before the machine changed
// After one and two visits, what took more is out of question; after three, nothing is in question any more. One visit
// may have been struck by chance.
constexpr double kAfterOne = 1.5;
constexpr double kAfterTwo = 1.03;
constexpr double kTryLoss = 0.1;  // tries of slower actions are rarer by this over what they lose

// Equal for actions that do the same work: the steps of a piece or, negative, of the hybrid's first; and the gates.
std::int64_t cut_of(const Action& a, const LayerState& s) {
  const auto steps = static_cast<std::int64_t>(a.gear.steps);
  const std::int64_t chunk = std::max<std::int64_t>(s.chunk, 1);
  std::int64_t piece = 1;
  if (a.gear.kind == Gear::Kind::kUnrolled) piece = steps == 0 ? chunk : std::min(steps, chunk);
  if (a.gear.kind == Gear::Kind::kHybrid && steps > 1) piece = steps >= s.steps ? chunk : -steps;
  return 2 * piece + (a.keeps_gates ? 1 : 0);
}

bool is_measured(const LayerState& s, std::size_t a) { return s.measured_us[a] > 0; }

// Of actions that do the same: the one that was measured most, else the one that runs, else the first.
bool stands_for_its_equals(const LayerState& s, const Standing& y, const std::vector<bool>& allowed,
                           std::size_t current, std::size_t a) {
  for (std::size_t b = 0; b < allowed.size(); ++b) {
    if (a == b || !allowed[b] || y.cuts[a] != y.cuts[b]) continue;
    if (is_measured(s, a) != is_measured(s, b)) {
      if (is_measured(s, b)) return false;
    } else if (s.visits[a] != s.visits[b]) {
      if (s.visits[b] > s.visits[a]) return false;
    } else if (b == current || (a != current && b < a)) {
      return false;
    }
  }
  return true;
}

// a + b * pieces a step, through the two measured gears with the longest pieces.
void reckon(const LayerState& s, std::span<const Action> actions, bool keeps_gates, Standing& y) {
  const std::size_t none = actions.size();
  std::size_t first = none;
  std::size_t second = none;
  for (std::size_t a = 0; a < actions.size(); ++a) {
    if (actions[a].keeps_gates != keeps_gates || !is_measured(s, a)) continue;
    if (first == none || y.pieces[a] < y.pieces[first]) {
      second = first;
      first = a;
    } else if (y.pieces[a] > y.pieces[first] && (second == none || y.pieces[a] < y.pieces[second])) {
      second = a;
    }
  }
  if (first == none || second == none) return;
  const double slope = (s.measured_us[second] - s.measured_us[first]) / (y.pieces[second] - y.pieces[first]);
  for (std::size_t a = 0; a < actions.size(); ++a) {
    if (actions[a].keeps_gates != keeps_gates || is_measured(s, a)) continue;
    y.us[a] = std::max(s.measured_us[first] + slope * (y.pieces[a] - y.pieces[first]), 0.1 * s.measured_us[first]);
  }
}

// Whether no other action has as many pieces as lie between this one's and the best's: one looks step by step which way
// times fall, for two that are nearly equal tell nothing of those far away.
bool is_beside_the_best(const Standing& y, const std::vector<bool>& allowed, std::size_t a) {
  const double low = std::min(y.pieces[a], y.pieces[y.best]);
  const double high = std::max(y.pieces[a], y.pieces[y.best]);
  for (std::size_t b = 0; b < y.pieces.size(); ++b) {
    const bool is_even = allowed[b] && y.cuts[b] > 0 && (y.cuts[a] & 1) == (y.cuts[b] & 1);  // no hybrid
    if (is_even && y.pieces[b] > low && y.pieces[b] < high) return false;
  }
  return true;
}

bool is_in_question(const LayerState& s, const Standing& y, const std::vector<bool>& allowed, std::size_t a,
                    double best) {
  if (best == 0) return true;
  if (!is_measured(s, a)) return (y.us[a] == 0 || y.us[a] <= kReckoned * best) && is_beside_the_best(y, allowed, a);
  if (s.visits[a] == 0) return y.us[a] <= kScaled * best;
  if (s.visits[a] == 1) return y.us[a] <= kAfterOne * best;
  return s.visits[a] == 2 && y.us[a] <= kAfterTwo * best;
}

}  // namespace

void Standing::resize(std::size_t actions) {
  runs.resize(actions);
  weights.resize(actions);
  us.resize(actions);
  cuts.resize(actions);
  pieces.resize(actions);
}

double pieces_a_step(const Gear& gear, std::int64_t steps, std::int64_t chunk) {
  chunk = std::max<std::int64_t>(chunk, 1);
  if (gear.kind == Gear::Kind::kRolled) return 1;
  if (gear.kind == Gear::Kind::kUnrolled) {
    return 1.0 / static_cast<double>(gear.steps == 0 ? chunk : std::min<std::int64_t>(gear.steps, chunk));
  }
  const std::int64_t all = std::max<std::int64_t>(steps, 1);
  const std::int64_t first = std::min<std::int64_t>(gear.steps, all);
  const std::int64_t pieces = (first + chunk - 1) / chunk + all - first;
  return static_cast<double>(pieces) / static_cast<double>(all);
}

void judge(const LayerState& s, std::span<const Action> actions, const std::vector<bool>& allowed, std::size_t current,
           Standing& out) {
  require(s.visits.size() == actions.size() && allowed.size() == actions.size(), "a count for each action");
  out.resize(actions.size());
  for (std::size_t a = 0; a < actions.size(); ++a) {
    out.us[a] = s.measured_us[a];
    out.cuts[a] = cut_of(actions[a], s);
    out.pieces[a] = pieces_a_step(actions[a].gear, s.steps, s.chunk);
  }
  for (const bool keeps : {true, false}) reckon(s, actions, keeps, out);
  out.best = actions.size();
  for (std::size_t a = 0; a < actions.size(); ++a) {
    out.runs[a] = allowed[a] && stands_for_its_equals(s, out, allowed, current, a);
    const bool is_better = out.best == actions.size() || out.us[a] < out.us[out.best];
    if (out.runs[a] && is_measured(s, a) && is_better) out.best = a;
  }
  const double best = out.best < actions.size() ? out.us[out.best] : 0;
  out.is_open = false;
  for (std::size_t a = 0; a < actions.size(); ++a) {
    const double lost = best > 0 && out.us[a] > 0 ? out.us[a] / best - 1 : 0;
    out.weights[a] = !out.runs[a] ? 0 : lost > kTryLoss ? kTryLoss / lost : 1;
    out.is_open = out.is_open || (out.runs[a] && a != out.best && is_in_question(s, out, allowed, a, best));
  }
  for (std::size_t a = 0; a < actions.size(); ++a) {
    if (!out.runs[a]) continue;
    out.runs[a] = out.is_open ? is_in_question(s, out, allowed, a, best)
                              : a == out.best || (is_measured(s, a) && out.us[a] <= kEqual * best);
  }
}

}  // namespace neap::ppo
