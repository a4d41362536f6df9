// Whether a variant gives the same bits, and what becomes of one that does not.
#include <fmt/format.h>

#include <algorithm>

#include "core/clock.h"
#include "train/tuner.h"

namespace neap {

// The same batch through both, without a change of state.
bool Tuner::agrees() {
  const auto start = Clock::now();
  const auto rehearse = [&](Stepper& stepper) {
    run_.put_in(stepper);
    std::map<std::string, std::uint64_t> out;
    for (Rehearsed& each : stepper.executor().rehearse()) out[std::move(each.name)] = each.hash;
    return out;
  };
  const auto wanted = rehearse(current());
  const auto got = rehearse(*trial_);
  spent_ms_ += ms_since(start);
  if (wanted == got) return true;
  std::vector<std::string> differing;
  for (const auto& [name, hash] : wanted) {
    if (const auto other = got.find(name); other == got.end() || other->second != hash) differing.push_back(name);
  }
  reject(differing);
  return false;
}

// The settled graph is what is right: where it differs from what runs, that was wrong, and stops here.
void Tuner::reject(const std::vector<std::string>& differing) {
  const bool is_settled =
      std::all_of(candidate_.actions.begin(), candidate_.actions.end(), [](int action) { return action == 0; });
  std::set<int> wrong;
  for (const int action : is_settled ? current_actions_ : candidate_.actions) wrong.insert(action);
  std::string names;
  for (const int action : wrong) {
    if (action == 0) continue;
    rejected_.insert(action);
    names += fmt::format("{}{}", names.empty() ? "" : ", ", pieces_->strategy(action));
  }
  log_.push_back(fmt::format("optimization {} gives other results ({} and {} others); it is left out from now on",
                             names, differing.empty() ? "?" : differing.front(),
                             std::max<std::size_t>(1, differing.size()) - 1));
  note_ = log_.back();
  if (!is_settled) return;
  adopted_ = std::move(trial_);
  current_actions_ = candidate_.actions;
}

}  // namespace neap
