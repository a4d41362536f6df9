#include "policy/dqn/agent.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "neap/error.h"
#include "neap/layers.h"

namespace neap::dqn {
namespace {

constexpr std::int64_t kLanes = 16;  // samples that train side by side
constexpr std::int64_t kUnits = 16;

const OptimizerOptions& optimizer() {
  static const OptimizerOptions options{.name = "adam", .weight_decay = 0, .clip = 1};
  return options;
}

// [rows, features] -> [rows, actions]
Value build(Builder& g, std::int64_t rows, std::int64_t actions) {
  const Value x = g.input("x", DType::kF32, {rows, static_cast<std::int64_t>(kFeatures)});
  const Value hidden = g("tanh", {linear(g, "hidden", x, kUnits)});
  const Value q = linear(g, "q", hidden, actions);
  g.output("q", q);
  return q;
}

Graph choosing_graph(std::int64_t actions) {
  Builder g(Mode::kEvaluation);
  build(g, 1, actions);
  return g.take();
}

// Only the action that was taken has an error.
Graph learning_graph(std::int64_t actions) {
  Builder g;
  const Value q = build(g, kLanes, actions);
  const Value d = g("sub", {q, g.input("target", DType::kF32, {kLanes, actions})});
  const Value taken = g("mul", {d, g.input("taken", DType::kF32, {kLanes, actions})});
  g.output("loss", g("reduce_sum", {g("square", {taken})}, {{"keepdims", std::int64_t{0}}}));
  return with_training(g, optimizer());
}

}  // namespace

struct Agent::Networks {
  Network choosing;
  Network learning;
};

std::array<float, kFeatures> features_of(const State& s) {
  const auto log = [](double x) { return static_cast<float>(std::log10(1e-3 + x) / 3); };
  return {log(s.nodes),
          log(s.gflop),
          log(s.bytes * 1e-6),
          log(s.ms),
          static_cast<float>(s.share),
          static_cast<float>(s.bandwidth),
          s.is_compute_bound ? 1.0F : -1.0F,
          static_cast<float>(s.strategy)};
}

double reward_of(const Reward& reward, double plain_ms, double ms, double plain_bandwidth, double bandwidth) {
  const double time = plain_ms > 0 ? (plain_ms - ms) / plain_ms : 0;
  return reward.time * time + reward.bandwidth * (plain_bandwidth - bandwidth);
}

void check(const AgentOptions& o) {
  if (o.training_epochs < 1 || o.training_epochs > 100'000) {
    throw UserError(fmt::format("RL_training_epochs {}: take 1 to 100000", o.training_epochs));
  }
  require(o.replay >= 1 && o.rate > 0, "the agent can learn");
}

Agent::Agent(std::vector<Strategy> library, const AgentOptions& options)
    : library_(std::move(library)), options_(options) {
  check(options);
  const auto actions = static_cast<std::int64_t>(library_.size() + 1);
  networks_ = std::make_unique<Networks>(
      Networks{Network(choosing_graph(actions), options.seed), Network(learning_graph(actions), options.seed)});
}

Agent::~Agent() = default;

std::int64_t Agent::bytes() const {
  return networks_->choosing.arena_bytes() + networks_->learning.arena_bytes() +
         static_cast<std::int64_t>(replay_.capacity() * sizeof(Sample));
}

int Agent::by_table(const State& state) const {
  const Strategy wanted = state.is_compute_bound ? Strategy::kCompute : Strategy::kMemory;
  const auto at = std::find(library_.begin(), library_.end(), wanted);
  return at == library_.end() ? 0 : static_cast<int>(at - library_.begin()) + 1;
}

std::vector<double> Agent::values(const State& state) {
  const auto features = features_of(state);
  std::copy(features.begin(), features.end(), networks_->choosing.floats("x").begin());
  networks_->choosing.run();
  const auto q = networks_->choosing.floats("q");
  return {q.begin(), q.end()};
}

int Agent::choose(const State& state) {
  if (replay_.empty()) return by_table(state);
  const std::vector<double> q = values(state);
  return static_cast<int>(std::max_element(q.begin(), q.end()) - q.begin());
}

void Agent::remember(const State& state, int action, double reward) {
  require(action >= 0 && action <= static_cast<int>(library_.size()), "there is such an action");
  const Sample sample{features_of(state), action, static_cast<float>(reward)};
  if (replay_.size() < options_.replay) {
    replay_.push_back(sample);
  } else {
    replay_[next_++ % replay_.size()] = sample;
  }
}

// Samples from `first` on, round and round.
void Agent::fill(std::size_t first) {
  const std::size_t actions = library_.size() + 1;
  const auto x = networks_->learning.floats("x");
  const auto target = networks_->learning.floats("target");
  const auto taken = networks_->learning.floats("taken");
  std::fill(target.begin(), target.end(), 0.0F);
  std::fill(taken.begin(), taken.end(), 0.0F);
  for (std::size_t lane = 0; lane < static_cast<std::size_t>(kLanes); ++lane) {
    const Sample& s = replay_[(first + lane) % replay_.size()];
    std::copy(s.features.begin(), s.features.end(), x.begin() + static_cast<std::ptrdiff_t>(lane * kFeatures));
    target[lane * actions + static_cast<std::size_t>(s.action)] = s.reward;
    taken[lane * actions + static_cast<std::size_t>(s.action)] = 1;
  }
}

void Agent::learn() {
  if (replay_.empty()) return;
  for (int epoch = 0; epoch < options_.training_epochs; ++epoch) {
    for (std::size_t first = 0; first < replay_.size(); first += static_cast<std::size_t>(kLanes)) {
      fill(first);
      networks_->learning.train(++steps_, options_.rate, optimizer());
    }
  }
  networks_->choosing.load(networks_->learning.weights());
}

}  // namespace neap::dqn
