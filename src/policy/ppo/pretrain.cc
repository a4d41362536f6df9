#include "policy/ppo/pretrain.h"

#include <algorithm>
#include <cmath>

#include "core/random.h"
#include "neap/error.h"

namespace neap::ppo {
namespace {

LayerState state_of(const Measured& row, std::size_t actions) {
  return {.kind = row.setting.kind,
          .steps = row.setting.steps,
          .batch = row.setting.batch,
          .input = row.setting.input,
          .hidden = row.setting.hidden,
          .chunk = row.setting.chunk,
          .utilisation = row.is_busy ? 0.5 : 0.95,
          .allowed = std::vector<bool>(actions, true),
          .measured_us = std::vector<double>(actions, 0.0)};
}

double best_allowed(const LayerState& state, const std::vector<double>& us) {
  double best = 0;
  for (std::size_t a = 0; a < us.size(); ++a) {
    if (state.allowed[a] && (best == 0 || us[a] < best)) best = us[a];
  }
  return best;
}

// Some sequences of one layer: what it measures it remembers, as in training.
class Episode {
 public:
  Episode(Agent& agent, const Measured& row, const PretrainOptions& o, RandomStream& random)
      : agent_(agent), o_(o), random_(random), state_(state_of(row, agent.actions().size())), us_(row.us) {
    for (double& us : us_) us *= std::exp(o.strangeness * random.normal());
    // Readings may be absent, memory may forbid what keeps much.
    if (random.uniform() < 0.3) state_.utilisation.reset();
    if (random.uniform() < 0.3) {
      for (std::size_t a = 0; a < us_.size(); ++a) state_.allowed[a] = !agent.actions()[a].keeps_gates;
    } else if (random.uniform() < 0.5) {
      for (std::size_t a = 0; a < us_.size(); ++a) state_.allowed[a] = agent.actions()[a].keeps_gates;
    }
    current_ = first_allowed();
  }

  double play() {
    double sum = 0;
    for (int s = 0; s < o_.sequences; ++s) sum += sequence();
    return sum / o_.sequences;
  }

 private:
  std::size_t first_allowed() const {
    const std::size_t start = random_.below(us_.size());
    for (std::size_t i = 0;; ++i) {
      if (state_.allowed[(start + i) % us_.size()]) return (start + i) % us_.size();
    }
  }

  double sequence() {
    std::vector<double> rewards;
    agent_.begin_sequence(0);
    for (int c = 0; c < o_.chunks; ++c) {
      const std::size_t chosen = agent_.select_execution_profile(0, current_, state_);
      const double us = us_[chosen] * std::exp(o_.noise * std::abs(random_.normal()));
      const double best = best_allowed(state_, us_);
      rewards.push_back(
          reward_of({.us = us, .best_us = best, .switch_us = chosen == current_ ? 0 : o_.switch_share * best}));
      double& known = state_.measured_us[chosen];
      state_.pace = known > 0 ? us / known : 1;
      known = known > 0 ? 0.7 * known + 0.3 * us : us;
      current_ = chosen;
    }
    agent_.end_sequence(0, rewards);
    double sum = 0;
    for (const double r : rewards) sum += r;
    return sum / o_.chunks;
  }

  Agent& agent_;
  const PretrainOptions& o_;
  RandomStream& random_;
  LayerState state_;
  std::vector<double> us_;
  std::size_t current_ = 0;
};

}  // namespace

void pretrain(Agent& agent, const std::vector<Measured>& table, const PretrainOptions& o,
              const std::function<void(int, double)>& told) {
  require(!table.empty(), "there is something to learn from");
  RandomStream random(hash_text("pretrain"));
  for (int round = 0; round < o.rounds; ++round) {
    double sum = 0;
    for (int e = 0; e < o.episodes; ++e) {
      sum += Episode(agent, table[random.below(table.size())], o, random).play();
    }
    agent.learn();
    told(round + 1, sum / o.episodes);
  }
}

double regret(Agent& agent, const std::vector<Measured>& table) {
  double sum = 0;
  for (const Measured& row : table) {
    LayerState state = state_of(row, agent.actions().size());
    const std::size_t chosen = agent.best(agent.actions().size(), state);
    sum += row.us[chosen] / best_allowed(state, row.us) - 1;
  }
  return sum / static_cast<double>(table.size());
}

}  // namespace neap::ppo
