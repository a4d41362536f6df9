#include "policy/ppo/agent.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "neap/error.h"

namespace neap::ppo {
namespace {

std::size_t count_true(const std::vector<bool>& flags) {
  return static_cast<std::size_t>(std::count(flags.begin(), flags.end(), true));
}

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

std::int64_t Agent::Moments::bytes() const {
  std::size_t out = slots.size() * sizeof(Moment);
  for (const Moment& m : slots) out += m.rows.capacity() * sizeof(Row) + m.allowed.capacity() / 8;
  return static_cast<std::int64_t>(out);
}

std::int64_t Agent::bytes() const {
  std::int64_t out = network_.bytes() + memory_.bytes();
  for (const Layer& layer : layers_) out += layer.moments.bytes();
  return out;
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
  if (memory_.slots.size() < options_.most_moments) memory_.slots.resize(options_.most_moments, blank);
  limits_.reserve(actions_.size());
  certain_.reserve(actions_.size());
  standing_.resize(actions_.size());
}

void Agent::begin_sequence(std::size_t layer) {
  Layer& l = at(layer);
  l.switches = 0;
  l.is_begun = false;
  l.moments.count = 0;
}

void Agent::set_limits(const Layer& layer, std::size_t current, const LayerState& state) {
  require(state.allowed.size() == actions_.size(), "a limit for each action");
  const bool may_stay = current < actions_.size() && state.allowed[current];
  const bool may_switch = layer.since_switch >= options_.dwell && layer.switches < options_.most_switches;
  limits_ = state.allowed;
  if (may_stay && !may_switch) {
    limits_.assign(actions_.size(), false);
    limits_[current] = true;
  }
  if (count_true(limits_) == 0) throw InternalError("the limits leave a recurrent layer no way to run");
}

// What the policy chooses from, and what tries do.
void Agent::set_choice(const Layer& l, std::size_t current, const LayerState& state, Moment& m) {
  if (state.visits.empty()) {
    m.allowed = limits_;
    standing_.resize(actions_.size());
    for (std::size_t a = 0; a < actions_.size(); ++a) standing_.weights[a] = limits_[a] ? 1 : 0;
    return;
  }
  judge(state, actions_, limits_, current, standing_);
  m.allowed = standing_.runs;
  const bool is_settled = !standing_.is_open && current < actions_.size() && standing_.runs[current];
  if (!goes_on(l, state) && (l.is_begun || !is_settled)) return;
  m.allowed.assign(actions_.size(), false);
  m.allowed[goes_on(l, state) ? l.home : current] = true;
}

// Inside a sequence that may run as it began.
bool Agent::goes_on(const Layer& l, const LayerState& state) const {
  return !state.visits.empty() && l.is_begun && l.home < actions_.size() && limits_[l.home];
}

// Explore or not, then an action: both are one draw from the mixture.
void Agent::draw(Moment& m, const std::vector<double>& policy, double epsilon) {
  double sum = 0;
  for (const double w : standing_.weights) sum += w;
  double left = random_.uniform();
  m.action = actions_.size();
  for (std::size_t a = 0; a < actions_.size(); ++a) {
    if (!m.allowed[a] && standing_.weights[a] <= 0) continue;
    const double share = sum > 0 ? standing_.weights[a] / sum : 0;
    const double probability = behaviour(policy[a], epsilon, share);
    if (probability <= 0) continue;
    m.action = a;
    m.probability = last_probability_ = probability;
    m.explore = epsilon * share;
    left -= probability;
    if (left < 0) break;
  }
}

std::size_t Agent::take(Layer& l, std::size_t current, std::size_t chosen) {
  const bool is_switch = chosen != current;
  l.since_switch = is_switch ? 1 : std::min(l.since_switch + 1, 1 << 20);
  l.switches += is_switch ? 1 : 0;
  return chosen;
}

std::size_t Agent::select_execution_profile(std::size_t layer, std::size_t current, const LayerState& state) {
  Layer& l = at(layer);
  Moment& m = l.moments.next();
  set_limits(l, current, state);
  // Mostly: without a try, as the sequence began. The same draw as below, before anything is reckoned.
  if (goes_on(l, state) && random_.uniform() >= options_.ppo.epsilon) {
    m.is_certain = true;
    m.action = l.home;
    m.probability = last_probability_ = 1 - options_.ppo.epsilon;
    m.allowed.assign(actions_.size(), false);
    return take(l, current, m.action);
  }
  const double epsilon = goes_on(l, state) ? 1 : options_.ppo.epsilon;
  set_choice(l, current, state, m);
  m.is_certain = !state.visits.empty() && count_true(m.allowed) == 1;
  if (m.is_certain) {
    certain_.assign(actions_.size(), 0);
    certain_[static_cast<std::size_t>(std::find(m.allowed.begin(), m.allowed.end(), true) - m.allowed.begin())] = 1;
    draw(m, certain_, epsilon);
  } else {
    fill_rows(state, actions_, current, m.rows);
    const ActorCritic::Output& y = network_.evaluate(m.rows, m.allowed);
    m.value = y.value;
    draw(m, y.policy, epsilon);
  }
  // What is only tried, or stays because its time is not over, is not what the sequence keeps to.
  const bool is_free = count_true(limits_) > 1 || count_true(state.allowed) == 1;
  if (is_free && (!l.is_begun || !state.allowed[l.home])) {
    l.home = m.action;
    l.is_begun = true;
  }
  return take(l, current, m.action);
}

std::size_t Agent::settle(std::size_t layer, std::size_t current, const LayerState& state) {
  Layer& l = at(layer);
  set_limits(l, current, state);
  std::size_t out = current < actions_.size() && limits_[current] ? current : actions_.size();
  const auto us = [&](std::size_t a) { return a < actions_.size() ? state.measured_us[a] : 0; };
  for (std::size_t a = 0; a < actions_.size(); ++a) {
    if (!limits_[a]) continue;
    const bool is_faster = us(a) > 0 && (us(out) <= 0 || us(a) < 0.99 * us(out));
    if (out == actions_.size() || is_faster) out = a;
  }
  l.is_begun = true;
  l.home = out;
  return take(l, current, out);
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
    if (m.is_certain) m.value = reward + options_.discount * next_value;  // the critic was not asked
    const double surprise = reward + options_.discount * next_value - m.value;
    advantage = surprise + options_.discount * options_.trace * advantage;
    next_value = m.value;
    m.advantage = advantage;
    m.target = advantage + m.value;
  }
  for (const Moment& m : moments) {
    // Where the policy had only one action there is nothing to learn.
    if (count_true(m.allowed) > 1 && memory_.count < options_.most_moments) memory_.next() = m;
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
