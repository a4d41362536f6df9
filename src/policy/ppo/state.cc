#include "policy/ppo/state.h"

#include <algorithm>
#include <cmath>

#include "neap/error.h"

namespace neap::ppo {
namespace {

float log_size(std::int64_t n) {
  return static_cast<float>(std::log2(static_cast<double>(std::max<std::int64_t>(n, 1))) / 10);
}

// Steps that the action takes as one piece, in the middle of a sequence.
std::int64_t piece_of(const Gear& gear, std::int64_t chunk) {
  if (gear.kind == Gear::Kind::kRolled) return 1;
  return gear.steps == 0 ? chunk : std::min<std::int64_t>(gear.steps, chunk);
}

}  // namespace

std::vector<Action> actions_of(std::span<const Gear> gears) {
  std::vector<Action> out;
  for (const bool keeps : {true, false}) {
    for (const Gear& gear : gears) out.push_back({gear, keeps});
  }
  return out;
}

void fill_rows(const LayerState& s, std::span<const Action> actions, std::size_t current, std::vector<Row>& rows) {
  require(s.allowed.size() == actions.size() && s.measured_us.size() == actions.size(), "a state for each action");
  double best = 0;
  for (std::size_t a = 0; a < actions.size(); ++a) {
    const double us = s.measured_us[a];
    if (s.allowed[a] && us > 0 && (best == 0 || us < best)) best = us;
  }
  rows.resize(actions.size());
  for (std::size_t a = 0; a < actions.size(); ++a) {
    const Gear& gear = actions[a].gear;
    const bool is_known = s.measured_us[a] > 0 && best > 0;
    const auto flag = [](bool value) { return value ? 1.0F : 0.0F; };
    rows[a] = {log_size(s.hidden), log_size(s.batch), log_size(s.steps), log_size(s.input),
               flag(s.kind == CellKind::kLstm), flag(s.kind == CellKind::kGru),
               flag(s.kind == CellKind::kTanh || s.kind == CellKind::kRelu), flag(s.is_training),
               static_cast<float>(s.utilisation.value_or(0)), flag(s.utilisation.has_value()),
               static_cast<float>(s.miss_rate.value_or(0)), flag(s.miss_rate.has_value()),
               static_cast<float>(std::clamp(s.headroom, 0.0, 1.0)),
               static_cast<float>(std::clamp(std::log2(std::max(s.pace, 1e-3)), -2.0, 2.0) / 2),
               flag(gear.kind == Gear::Kind::kRolled), flag(gear.kind == Gear::Kind::kUnrolled),
               flag(gear.kind == Gear::Kind::kHybrid),
               // Pieces of 8 and 16 must be as far apart as 1 and 2 are.
               3 * log_size(piece_of(gear, s.chunk)), flag(gear == Gear::whole()), flag(actions[a].keeps_gates),
               flag(a == current), flag(is_known),
               is_known ? static_cast<float>(std::min(std::log(s.measured_us[a] / best), 0.5) * 4) : 0.0F};
  }
}

double reward_of(const RewardParts& p) {
  if (p.us <= 0 || p.best_us <= 0) return 0;
  const double lost = (p.us + p.switch_us) / p.best_us - 1;
  return std::clamp(-lost - kMissWeight * p.miss_rate.value_or(0), -2.0, 1.0);
}

}  // namespace neap::ppo
