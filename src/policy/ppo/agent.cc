#include "policy/ppo/agent.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "neap/error.h"

namespace neap::ppo {
namespace {

constexpr std::size_t kMostMoments = 1024;

AgentOptions checked(AgentOptions options) {
  check(options);
  return options;
}

}  // namespace

void check(const AgentOptions& o) {
  if (o.gears.empty() || o.gears.size() > 64) throw UserError("offer 1 to 64 ways to run a recurrent layer");
  const auto is_share = [](double x) { return x >= 0 && x <= 1; };
  if (!is_share(o.ppo.epsilon)) throw UserError("the share of tries lies between 0 and 1");
  if (!is_share(o.discount) || !is_share(o.trace)) throw UserError("discount and trace lie between 0 and 1");
  if (o.dwell < 1) throw UserError(fmt::format("a gear stays for at least 1 chunk, not {}", o.dwell));
  if (o.most_switches < 0) throw UserError("the number of switches is not negative");
}

Agent::Agent(AgentOptions options)
    : options_(checked(std::move(options))),
      actions_(actions_of(options_.gears)),
      network_(actions_.size(), options_.ppo, options_.seed),
      random_(mix(options_.seed, hash_text("recurrent profiles"))) {}

Moment& Agent::Moments::next() {
  if (count == slots.size()) slots.emplace_back();
  return slots[count++];
}

Agent::Layer& Agent::at(std::size_t layer) {
  if (layer >= layers_.size()) layers_.resize(layer + 1);
  return layers_[layer];
}

void Agent::reserve(std::size_t layers, std::size_t choices) {
  Moment blank;
  blank.rows.resize(actions_.size());
  blank.allowed.resize(actions_.size());
  if (layers > 0) at(layers - 1);
  for (Layer& l : layers_) {
    if (l.moments.slots.size() < choices) l.moments.slots.resize(choices, blank);
  }
  if (memory_.slots.size() < kMostMoments) memory_.slots.resize(kMostMoments, blank);
}

void Agent::begin_sequence(std::size_t layer) {
  Layer& l = at(layer);
  l.switches = 0;
  l.moments.count = 0;
}

void Agent::set_mask(const Layer& layer, std::size_t current, const LayerState& state,
                     std::vector<bool>& allowed) const {
  require(state.allowed.size() == actions_.size(), "a limit for each action");
  const bool may_stay = current < actions_.size() && state.allowed[current];
  const bool may_switch = layer.since_switch >= options_.dwell && layer.switches < options_.most_switches;
  allowed = state.allowed;
  if (!may_stay || may_switch) return;
  allowed.assign(actions_.size(), false);
  allowed[current] = true;
}

std::size_t Agent::select_execution_profile(std::size_t layer, std::size_t current, const LayerState& state) {
  Layer& l = at(layer);
  Moment& m = l.moments.next();
  fill_rows(state, actions_, current, m.rows);
  set_mask(l, current, state, m.allowed);
  const auto n = static_cast<std::size_t>(std::count(m.allowed.begin(), m.allowed.end(), true));
  if (n == 0) throw InternalError("the limits leave a recurrent layer no way to run");
  const ActorCritic::Output& y = network_.evaluate(m.rows, m.allowed);
  // Explore or not, then an action: both are one draw from the mixture.
  double left = random_.uniform();
  std::size_t chosen = actions_.size();
  for (std::size_t a = 0; a < actions_.size(); ++a) {
    if (!m.allowed[a]) continue;
    chosen = a;
    left -= behaviour(y.policy[a], options_.ppo.epsilon, n);
    if (left < 0) break;
  }
  m.action = chosen;
  m.probability = last_probability_ = behaviour(y.policy[chosen], options_.ppo.epsilon, n);
  m.value = y.value;
  const bool is_switch = chosen != current;
  l.since_switch = is_switch ? 1 : std::min(l.since_switch + 1, 1 << 20);
  l.switches += is_switch ? 1 : 0;
  return chosen;
}

std::size_t Agent::best(std::size_t current, const LayerState& state) {
  std::vector<Row> rows;
  fill_rows(state, actions_, current, rows);
  const ActorCritic::Output& y = network_.evaluate(rows, state.allowed);
  std::size_t out = actions_.size();
  for (std::size_t a = 0; a < actions_.size(); ++a) {
    if (state.allowed[a] && (out == actions_.size() || y.policy[a] > y.policy[out])) out = a;
  }
  if (out == actions_.size()) throw InternalError("the limits leave a recurrent layer no way to run");
  return out;
}

// Advantages by generalised advantage estimation. Values are means over the time ahead, not sums: as large as rewards,
// however long sequences are.
void Agent::end_sequence(std::size_t layer, std::span<const double> rewards) {
  const std::span<Moment> moments = at(layer).moments.all();
  require(rewards.size() == moments.size(), "a reward for each choice");
  double next_value = 0;
  double advantage = 0;
  for (std::size_t i = rewards.size(); i-- > 0;) {
    Moment& m = moments[i];
    const double reward = (1 - options_.discount) * (std::isfinite(rewards[i]) ? rewards[i] : 0);
    const double surprise = reward + options_.discount * next_value - m.value;
    advantage = surprise + options_.discount * options_.trace * advantage;
    next_value = m.value;
    m.advantage = advantage;
    m.target = advantage + m.value;
  }
  for (const Moment& m : moments) {
    // Where only one action was allowed there is nothing to learn.
    const bool was_free = std::count(m.allowed.begin(), m.allowed.end(), true) > 1;
    if (was_free && memory_.count < kMostMoments) memory_.next() = m;
  }
  at(layer).moments.count = 0;
}

void Agent::learn(int passes) {
  const std::span<Moment> moments = memory_.all();
  if (moments.empty()) return;
  double mean = 0;
  for (const Moment& m : moments) mean += m.advantage / static_cast<double>(moments.size());
  double square = 0;
  for (const Moment& m : moments) square += (m.advantage - mean) * (m.advantage - mean);
  const double deviation = std::sqrt(square / static_cast<double>(moments.size())) + 1e-6;
  for (Moment& m : moments) m.advantage = std::clamp((m.advantage - mean) / deviation, -4.0, 4.0);
  for (std::size_t i = moments.size(); i > 1; --i) std::swap(moments[i - 1], moments[random_.below(i)]);
  network_.learn(moments, passes);
  memory_.count = 0;
}

}  // namespace neap::ppo
