#include "policy/ppo/times.h"

#include <algorithm>
#include <cmath>

#include "neap/error.h"

namespace neap::ppo {

double Times::Of::least() const {
  double out = 0;
  for (int i = 0; i < std::min(count, kKept); ++i) out = i == 0 ? last[i] : std::min(out, last[i]);
  return out;
}

void Times::reset(std::size_t actions, std::size_t chunks) {
  of_.assign(actions, {});
  places_.assign(chunks, 1.0);
  is_warm_ = false;
}

void Times::note(std::span<const std::size_t> taken, std::span<const double> us) {
  require(taken.size() == places_.size() && us.size() == places_.size(), "a time for each chunk");
  if (!is_warm_ || taken.empty()) {
    is_warm_ = true;
    return;
  }
  for (Of& o : of_) {
    o.sum = o.share = 0;
    o.chunks = 0;
  }
  for (std::size_t k = 0; k < taken.size(); ++k) {
    Of& o = of_[taken[k]];
    o.sum += us[k];
    o.share += places_[k];
    ++o.chunks;
  }
  const bool is_one = of_[taken[0]].chunks == static_cast<int>(taken.size());
  if (is_one) note_places(us);
  for (std::size_t a = 0; a < of_.size(); ++a) {
    const Of& o = of_[a];
    // A single chunk among others says too little where more is known.
    if (o.chunks > 1 || is_one || o.count == 0) {
      if (o.chunks > 0 && o.sum > 0 && std::isfinite(o.sum)) add(a, o.sum / o.share);
    }
  }
}

void Times::note_places(std::span<const double> us) {
  double mean = 0;
  for (const double t : us) mean += t / static_cast<double>(us.size());
  if (mean <= 0 || !std::isfinite(mean)) return;
  for (std::size_t k = 0; k < us.size(); ++k) places_[k] += 0.3 * (us[k] / mean - places_[k]);
}

void Times::add(std::size_t action, double us) {
  Of& o = of_[action];
  const bool was_known = o.count >= kKept;
  const double before = o.least();
  o.last[o.count % kKept] = us;
  ++o.count;
  o.visits = std::min(o.visits + 1, 1 << 20);
  if (!was_known) return;
  const double by = o.least() / before;
  if (by > kJump || by < 1 / kJump) scale_others(action, by);
}

void Times::scale_others(std::size_t action, double by) {
  for (std::size_t a = 0; a < of_.size(); ++a) {
    if (a == action) continue;
    for (double& us : of_[a].last) us *= by;
    of_[a].visits = 0;
  }
}

void Times::tell(LayerState& state) const {
  state.measured_us.resize(of_.size());
  state.visits.resize(of_.size());
  for (std::size_t a = 0; a < of_.size(); ++a) {
    state.measured_us[a] = of_[a].least();
    state.visits[a] = of_[a].visits;
  }
}

double Times::best_us() const {
  double best = 0;
  for (const Of& o : of_) {
    if (o.count > 0 && (best == 0 || o.least() < best)) best = o.least();
  }
  return best;
}

}  // namespace neap::ppo
